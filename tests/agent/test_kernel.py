"""The kernel's side of the driver: its list of cards against the library's, its log beside the library's events."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.probe.kernel import KernelLog, KernelView, bus_key, kernel_view, xid_read
from agent.probe.nvml import NvmlProbe
from tests.agent import captures, nvml

VERSION = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.14  Release Build  (builder)\nGCC version: 12\n"
)
L4_BUS, A100_BUS = "0000:01:00.0", "0000:41:00.0"


class Journal:
    """/dev/kmsg's manners by a pipe in packet mode: one record per read, and nothing more is EAGAIN."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe2(os.O_DIRECT | os.O_NONBLOCK)
        self.log = KernelLog(self._read)

    def say(self, text: str) -> None:
        os.write(self._write, f"4,1234,5678901,-;{text}\n".encode())

    def close(self) -> None:
        os.close(self._write)


@pytest.fixture
def journal() -> Iterator[Journal]:
    made = Journal()
    yield made
    made.close()


@pytest.fixture
def driver(tmp_path: Path) -> Path:
    folder = tmp_path / "driver"
    for bus in (L4_BUS, A100_BUS):
        (folder / "gpus" / bus).mkdir(parents=True)
    (folder / "version").write_text(VERSION)
    return folder


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "nvml.state"
    nvml.write(path, nvml.HEAD, nvml.L4, nvml.A100)
    for name, value in nvml.environment(path).items():
        monkeypatch.setenv(name, value)
    return path


@pytest.fixture
def probe(state: Path, driver: Path, journal: Journal) -> Iterator[NvmlProbe]:
    made = NvmlProbe(driver_folder=driver, kernel_log=journal.log)
    yield made
    made.close()


@pytest.mark.parametrize("text", ["00000000:9B:00.0", "0000:9b:00", "0000:9b:00.0"])
def test_one_address_has_one_key(text: str) -> None:
    assert bus_key(text) == "0:9b:00"
    assert bus_key(None) is bus_key("") is bus_key("no address") is None


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("NVRM: Xid (PCI:0000:9b:00): 79, pid=1, name=x, GPU has fallen off the bus.", ("0:9b:00", 79)),
        ("4,99,1,-;NVRM: Xid (PCI:0001:41:00): 63, Row Remapper", ("1:41:00", 63)),
        ("NVRM: GPU at PCI:0000:9b:00: GPU-00000000-0000-0000-0000-000000000004", None),
        ("NVRM: Xid (PCI:nonsense): 79", None),
        ("a job printed: Xid 79", None),
    ],
)
def test_an_xid_is_read_from_its_line_and_from_no_other(line: str, found: tuple[str, int] | None) -> None:
    assert xid_read(line) == found


def test_a_whole_log_brings_its_xids(journal: Journal) -> None:
    """Ours, and the ones that real hosts wrote where they are present."""
    lines = [
        "Call Trace:",
        "NVRM: Xid (PCI:0000:9b:00): 119, Timeout waiting for RPC from GSP",
        "NVRM: GPU4 RPC history",
    ]
    for path in captures.kernel_logs():
        lines += path.read_text().splitlines()
    found = []
    for line in lines:
        journal.say(line)
        found += journal.log.xids()
    assert found == [("0:9b:00", 119)] * sum("NVRM: Xid (" in line for line in lines)


def test_without_the_right_to_read_it_there_is_no_log(tmp_path: Path) -> None:
    log = KernelLog.open(tmp_path / "kmsg")
    assert log.xids() == []
    log.close()


def test_the_drivers_folder_is_read(driver: Path, tmp_path: Path) -> None:
    assert kernel_view(driver) == KernelView(frozenset({"0:01:00", "0:41:00"}), "550.54.14")
    (driver / "version").unlink()
    assert kernel_view(driver).version is None
    assert kernel_view(tmp_path / "none") == KernelView(None, None)


@pytest.mark.compiler
def test_a_card_that_only_the_library_knows_degrades_the_host(probe: NvmlProbe, driver: Path) -> None:
    assert probe.read().degraded == ()
    (driver / "gpus" / A100_BUS).rmdir()
    reading = probe.read()
    assert reading.degraded == ("driver_disagrees",)
    assert {gpu.uuid: gpu.health for gpu in reading.gpus} == {nvml.L4_UUID: "ok", nvml.A100_UUID: "ok"}
    (driver / "gpus" / A100_BUS).mkdir()
    assert probe.read().degraded == ()


@pytest.mark.compiler
def test_a_card_that_only_the_kernel_knows_does_not(probe: NvmlProbe, driver: Path) -> None:
    (driver / "gpus" / "0000:81:00.0").mkdir()
    assert probe.read().degraded == ()


@pytest.mark.compiler
@pytest.mark.parametrize(("version", "degraded"), [("560.1", ("driver_disagrees",)), ("550.54.14", ()), ("", ())])
def test_a_version_that_only_the_library_knows_degrades_the_host(
    probe: NvmlProbe, driver: Path, version: str, degraded: tuple[str, ...]
) -> None:
    (driver / "version").write_text(VERSION.replace("550.54.14", version))
    assert probe.read().degraded == degraded


@pytest.mark.compiler
def test_an_xid_that_the_library_does_not_tell_is_taken_from_the_log(probe: NvmlProbe, journal: Journal) -> None:
    assert probe.read().xids == ()
    journal.say("NVRM: Xid (PCI:0000:41:00): 119, Timeout waiting for RPC from GSP")
    journal.say("NVRM: Xid (PCI:0000:99:00): 79, a card of somebody else")
    assert probe.read().xids == ((nvml.A100_UUID, 119),)
    assert probe.read().xids == ()


@pytest.mark.compiler
@pytest.mark.parametrize("log_first", [True, False])
def test_an_xid_that_both_tell_of_is_one_event(
    probe: NvmlProbe, state: Path, journal: Journal, log_first: bool
) -> None:
    def library() -> None:
        nvml.write(state, nvml.HEAD, nvml.L4, nvml.A100, "xid 79\n")

    def log() -> None:
        journal.say("NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus.")

    probe.read()
    seen = []
    for tell in (log, library) if log_first else (library, log):
        tell()
        seen += probe.read().xids
    assert seen == [(nvml.A100_UUID, 79)]


@pytest.mark.compiler
def test_a_hanging_driver_still_says_why_in_the_log(state: Path, driver: Path, journal: Journal) -> None:
    probe = NvmlProbe(deadline_s=60.0, driver_folder=driver, kernel_log=journal.log)
    probe.read()
    probe._deadline_s = 0.3
    nvml.write(state, "hang\n", nvml.HEAD, nvml.L4, nvml.A100)
    journal.say("NVRM: Xid (PCI:0000:41:00): 119, Timeout waiting for RPC from GSP")
    reading = probe.read()
    assert (reading.degraded, reading.xids) == (("nvml_timeout",), ((nvml.A100_UUID, 119),))
    probe.close()

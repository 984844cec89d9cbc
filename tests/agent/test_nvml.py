"""NVML through the real nvidia-ml-py, a real child process and a compiled stand-in for the driver's library."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.probe.base import ProbeReading
from agent.probe.nvml import NvmlProbe
from agent.state import StateStore
from tests.agent import nvml
from tests.agent.host import AgentHost, attempt_body, ended
from tests.agent.platform import FakePlatform
from tests.agent.waiting import eventually

pytestmark = pytest.mark.compiler


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "nvml.state"
    nvml.write(path, nvml.HEAD, nvml.L4, nvml.A100)
    for name, value in nvml.environment(path).items():
        monkeypatch.setenv(name, value)
    return path


@pytest.fixture
def probe(state: Path) -> Iterator[NvmlProbe]:
    made = NvmlProbe()
    yield made
    made.close()


def health(reading: ProbeReading) -> dict[str, str]:
    return {gpu.uuid: gpu.health for gpu in reading.gpus}


def test_mixed_cards_are_described_each_by_its_uuid(probe: NvmlProbe) -> None:
    reading = probe.read()
    assert (reading.driver_version, reading.cuda_version, reading.degraded) == ("550.54.14", "12.4", ())
    l4, a100 = reading.gpus
    assert (l4.uuid, l4.name, l4.memory_bytes) == (nvml.L4_UUID, "NVIDIA L4", 25_757_220_864)
    assert (l4.pci_bus_id, l4.pcie_generation, l4.pcie_width) == ("00000000:01:00.0", 4, 16)
    assert (l4.power_limit_w, l4.ecc_enabled, l4.mig_enabled, l4.vbios) == (72.0, True, False, "95.04.29")
    assert l4.reasons == {}
    assert a100.name == "NVIDIA A100-SXM4-80GB"
    cold, busy = reading.telemetry
    assert (cold.utilization_percent, cold.memory_used_bytes, cold.temperature_c, cold.power_w) == (
        3,
        1048576,
        41,
        16.5,
    )
    assert (cold.sm_clock_mhz, cold.memory_clock_mhz) == (2040, 6251)
    assert (cold.foreign_processes, busy.foreign_processes) == (0, 2)
    assert (cold.throttle_reasons, busy.throttle_reasons) == (("gpu_idle",), ("sw_power_cap", "hw_thermal"))


def test_a_throttle_bit_of_a_later_driver_is_told_as_other_and_none_as_none(probe: NvmlProbe, state: Path) -> None:
    told = []
    for mask in ("0x8008", "0x0"):
        nvml.write(state, nvml.HEAD, nvml.L4.replace("throttle 0x1", f"throttle {mask}"))
        told.append(probe.read().telemetry[0].throttle_reasons)
    nvml.write(state, nvml.HEAD, nvml.L4, "error throttle 3\n")
    told.append(probe.read().telemetry[0].throttle_reasons)
    assert told == [("hw_slowdown", "other"), (), None]


@pytest.mark.parametrize(
    ("code", "reason"), [(3, "not_supported"), (4, "no_permission"), (13, "function_not_found"), (999, "error")]
)
def test_what_cannot_be_read_is_null_with_a_reason(probe: NvmlProbe, state: Path, code: int, reason: str) -> None:
    broken = "".join(f"error {key} {code}\n" for key in ("limit", "ecc", "vbios", "load", "temperature"))
    nvml.write(state, nvml.HEAD, nvml.L4, broken)
    reading = probe.read()
    gpu, telemetry = reading.gpus[0], reading.telemetry[0]
    assert (gpu.power_limit_w, gpu.ecc_enabled, gpu.vbios) == (None, None, None)
    assert gpu.reasons == dict.fromkeys(("power_limit_w", "ecc_enabled", "vbios"), reason)
    assert (telemetry.utilization_percent, telemetry.temperature_c) == (None, None)
    assert (gpu.health, gpu.name, telemetry.power_w) == ("ok", "NVIDIA L4", 16.5)


def test_a_number_that_means_not_available_is_null(probe: NvmlProbe, state: Path) -> None:
    nvml.write(state, nvml.HEAD, nvml.L4.replace("power 16500", f"power {0xFFFFFFFF}"))
    assert probe.read().telemetry[0].power_w is None


def test_an_error_is_never_a_model_name(probe: NvmlProbe, state: Path) -> None:
    nvml.write(state, nvml.HEAD, nvml.L4, "error name 999\n")
    gpu = probe.read().gpus[0]
    assert gpu.name is None
    assert gpu.reasons == {"name": "error"}


def test_a_lost_gpu_is_lost_alone_and_keeps_its_description(probe: NvmlProbe, state: Path) -> None:
    probe.read()
    nvml.write(state, nvml.HEAD, nvml.L4, "error name 15\n", nvml.A100)
    reading = probe.read()
    assert health(reading) == {nvml.L4_UUID: "lost", nvml.A100_UUID: "ok"}
    assert reading.gpus[0].name == "NVIDIA L4"
    assert reading.telemetry[0].power_w is None
    assert reading.degraded == ()


def test_a_gpu_that_has_no_handle_any_more_is_lost(probe: NvmlProbe, state: Path) -> None:
    probe.read()
    nvml.write(state, nvml.HEAD, nvml.L4, "error handle 15\n", nvml.A100)
    assert health(probe.read()) == {nvml.L4_UUID: "lost", nvml.A100_UUID: "ok"}
    nvml.write(state, nvml.HEAD, nvml.A100)
    assert health(probe.read()) == {nvml.L4_UUID: "lost", nvml.A100_UUID: "ok"}
    nvml.write(state, nvml.HEAD, nvml.A100, nvml.L4)
    assert health(probe.read()) == {nvml.L4_UUID: "ok", nvml.A100_UUID: "ok"}


def test_a_card_whose_slot_holds_another_one_was_taken_out(probe: NvmlProbe, state: Path) -> None:
    probe.read()
    other = nvml.A100_UUID.replace("2222", "3333")
    nvml.write(state, nvml.HEAD, nvml.L4, nvml.A100.replace(nvml.A100_UUID, other))
    assert health(probe.read()) == {nvml.L4_UUID: "ok", other: "ok"}


def test_cards_that_changed_places_are_the_same_cards(probe: NvmlProbe, state: Path) -> None:
    before = {gpu.uuid: gpu.health for gpu in probe.read().gpus}
    l4, a100 = "00000000:01:00.0", "00000000:41:00.0"
    nvml.write(state, nvml.HEAD, nvml.A100.replace(a100, l4), nvml.L4.replace(l4, a100))
    reading = probe.read()
    assert health(reading) == before
    assert {gpu.uuid: gpu.pci_bus_id for gpu in reading.gpus} == {nvml.L4_UUID: a100, nvml.A100_UUID: l4}


def test_mig_is_told(probe: NvmlProbe, state: Path) -> None:
    nvml.write(state, nvml.HEAD, nvml.L4.replace("mig 0", "mig 1"))
    assert probe.read().gpus[0].mig_enabled is True


@pytest.mark.parametrize(("code", "word"), [(18, "nvml_mismatch"), (9, "nvml_missing"), (999, "nvml_failed")])
def test_a_driver_that_does_not_start_degrades_the_host_and_may_come_back(
    probe: NvmlProbe, state: Path, code: int, word: str
) -> None:
    known = probe.read()
    probe.close()
    nvml.write(state, f"init {code}\n", nvml.HEAD, nvml.L4, nvml.A100)
    reading = probe.read()
    assert reading.degraded == (word,)
    assert health(reading) == {nvml.L4_UUID: "unknown", nvml.A100_UUID: "unknown"}
    assert reading.telemetry == ()
    nvml.write(state, nvml.HEAD, nvml.L4, nvml.A100)
    assert probe.read() == known


def test_without_a_library_the_host_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    probe = NvmlProbe()
    assert probe.read() == ProbeReading(degraded=("nvml_missing",))
    probe.close()


def test_a_hanging_driver_costs_one_deadline_and_no_more(state: Path) -> None:
    probe = NvmlProbe(deadline_s=5.0)
    known = probe.read()
    probe._deadline_s = 0.3
    nvml.write(state, "hang\n", nvml.HEAD, nvml.L4, nvml.A100)
    began = time.monotonic()
    reading = probe.read()
    assert time.monotonic() - began < 3.0
    assert reading.degraded == ("nvml_timeout",)
    assert [gpu.uuid for gpu in reading.gpus] == [gpu.uuid for gpu in known.gpus]
    probe._deadline_s = 10.0
    nvml.write(state, nvml.HEAD, nvml.L4, nvml.A100)
    assert probe.read() == known
    probe.close()


def test_a_crash_in_the_library_takes_the_child_and_not_us(probe: NvmlProbe, state: Path) -> None:
    known = probe.read()
    nvml.write(state, "crash\n", nvml.HEAD, nvml.L4, nvml.A100)
    assert probe.read().degraded == ("nvml_failed",)
    nvml.write(state, nvml.HEAD, nvml.L4, nvml.A100)
    assert probe.read() == known


def test_an_xid_is_an_event_told_once(probe: NvmlProbe, state: Path) -> None:
    assert probe.read().xids == ()
    nvml.write(state, nvml.HEAD, nvml.L4, nvml.A100, "xid 79\nxid 13\n")
    assert probe.read().xids == ((nvml.A100_UUID, 79), (nvml.A100_UUID, 13))
    assert probe.read().xids == ()


def test_an_agent_with_a_broken_driver_is_online_and_degraded(
    platform: FakePlatform, host: AgentHost, state: Path
) -> None:
    nvml.write(state, "init 18\n")
    host.options |= {"--probe": "nvml"}
    del host.options["--simulated-profile"]
    host.environment |= nvml.environment(state)
    host.start()
    eventually(lambda: platform.syncs, "a sync")
    assert platform.syncs[0].degraded == ("nvml_mismatch",)
    assert platform.enrolments[0].simulated is False


def test_heartbeats_go_on_while_the_driver_hangs_and_say_so(
    platform: FakePlatform, host: AgentHost, state: Path
) -> None:
    host.options |= {"--probe": "nvml"}
    del host.options["--simulated-profile"]
    host.environment |= nvml.environment(state)
    host.start()
    eventually(lambda: platform.syncs, "a sync", 60)
    assert platform.last_sync().degraded == ()
    nvml.write(state, "hang\n", nvml.HEAD, nvml.L4, nvml.A100)
    seen = len(platform.syncs)
    eventually(lambda: platform.last_sync().degraded == ("nvml_timeout",), "it says so", 180)
    # Many heartbeats fit into the deadline of one look.
    assert len(platform.syncs) - seen > 5
    nvml.write(state, nvml.HEAD, nvml.L4, nvml.A100)
    eventually(lambda: platform.last_sync().degraded == (), "the driver is back", 180)


def test_a_job_that_failed_with_its_gpu_is_the_providers_fault(
    platform: FakePlatform, host: AgentHost, state: Path
) -> None:
    """It exits with 1 when its file appears, which is when the card falls off the bus."""
    host.options |= {"--probe": "nvml"}
    del host.options["--simulated-profile"]
    host.environment |= nvml.environment(state)
    for folder in [host.folder, *host.folder.parents][:4]:
        folder.chmod(0o755)
    body = attempt_body(f"until [ -e {host.folder}/fall ]; do sleep 0.02; done; exit 1", gpu_uuids=[nvml.A100_UUID])
    platform.plan_put("attempt", body)
    host.start()
    eventually(lambda: platform.state(body["attempt_id"]) == "running", "the attempt runs")
    nvml.write(state, nvml.HEAD, nvml.L4, nvml.A100, "xid 79\n")
    (host.folder / "fall").touch()
    report = ended(platform, body)
    assert (report["exit_code"], report["reason"]) == (1, "gpu_lost")
    xids = eventually(lambda: platform.events_of("gpu_xid"), "the Xid")
    assert [(each["uuid"], each["xid"]) for each in xids] == [(nvml.A100_UUID, 79)]


def test_the_outbox_is_bounded_but_never_for_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.state.OUTBOX_SOFT_LIMIT", 3)
    store = StateStore(tmp_path / "state")
    for number in range(10):
        store.outbox_add("orphan", {"name": f"job-{number}"})
    store.benchmark_end(
        "run",
        "failed",
        "benchmark_failed",
        {"run_id": "01890a5d-ac96-774b-bcce-b302099a8057", "nonce": "n", "reason": "unknown"},
    )
    assert [event.kind for event in store.outbox_batch(100)] == ["orphan"] * 3 + ["benchmark_failed"]
    store.close()

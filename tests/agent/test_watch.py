"""A card that a fresh look found free needs no look of its own before a start; any other does."""

import threading
from pathlib import Path

import pytest

from agent import watch as watching
from agent.config import Settings
from agent.leases import GpuLeases
from agent.memory import memory_await
from agent.pacing import Alarm
from agent.probe.base import ProbeReading
from agent.state import StateStore
from agent.watch import HostWatch
from agent_protocol.messages import Gpu, GpuTelemetry

ONE, TWO = "GPU-aaaaaaaa-0000-0000-0000-000000000001", "GPU-aaaaaaaa-0000-0000-0000-000000000002"
TOTAL = 24 * 2**30


class TwoCards:
    simulated = False

    def __init__(self) -> None:
        self.used: dict[str, int | None] = {ONE: 2**20, TWO: 2**20}
        self.degraded: tuple[str, ...] = ()
        self.reads = 0

    def read(self) -> ProbeReading:
        self.reads += 1
        return ProbeReading(
            degraded=self.degraded,
            gpus=tuple(Gpu(uuid=uuid, name="L4", memory_bytes=TOTAL, health="ok", reasons={}) for uuid in self.used),
            telemetry=tuple(GpuTelemetry(uuid=uuid, memory_used_bytes=used) for uuid, used in self.used.items()),
        )

    def busy(self, uuids: frozenset[str]) -> None: ...

    def close(self) -> None: ...


class Stage:
    def __init__(self, folder: Path) -> None:
        stop = threading.Event()
        self.store = StateStore(folder)
        self.probe = TwoCards()
        settings = Settings(url="http://127.0.0.1", state=folder, runtime="process", probe="nvml")
        self.watch = HostWatch(settings, self.probe, self.store, Alarm(stop))
        self.leases = GpuLeases(self.watch.busy)
        self.waits = 0

    def looks(self, *uuids: str) -> int:
        """How often the driver is asked until a job may start on these cards. Whoever waits finds them free."""
        before = self.probe.reads
        memory_await(self.watch, uuids, lambda: False, self._wait, {})
        return self.probe.reads - before

    def _wait(self, _seconds: float) -> None:
        self.waits += 1
        self.probe.used = dict.fromkeys(self.probe.used, 2**20)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    made = Stage(tmp_path / "state")
    made.watch.look()
    return made


def test_a_card_that_was_free_a_moment_ago_is_not_looked_at_again(stage: Stage) -> None:
    assert stage.leases.acquire("job", (ONE,), lambda: False)
    assert stage.looks(ONE) == 0


def test_a_look_that_is_not_fresh_does_not_count(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "FRESH_S", -1.0)
    assert stage.looks(ONE) == 1


def test_a_card_that_a_job_has_just_left_is_looked_at_and_its_neighbour_is_not(stage: Stage) -> None:
    stage.leases.acquire("first", (ONE,), lambda: False)
    stage.leases.release("first")
    stage.leases.acquire("second", (ONE,), lambda: False)
    assert stage.looks(TWO) == 0
    assert stage.looks(ONE, TWO) == 1
    assert stage.looks(ONE, TWO) == 0


def test_a_look_that_began_before_the_job_left_proves_nothing(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job ends while the driver is being read: what was read may be of the time before it took its memory."""
    read = stage.probe.read

    def overtaken() -> ProbeReading:
        found = read()
        stage.leases.release("first")
        return found

    stage.leases.acquire("first", (ONE,), lambda: False)
    monkeypatch.setattr(stage.probe, "read", overtaken)
    stage.watch.look()
    monkeypatch.setattr(stage.probe, "read", read)
    assert stage.looks(ONE) == 1


@pytest.mark.parametrize(("used", "waits"), [(10 * 2**30, 1), (None, 0)])
def test_a_card_that_is_held_or_says_nothing_is_not_known_to_be_free(
    stage: Stage, used: int | None, waits: int
) -> None:
    stage.probe.used[ONE] = used
    stage.watch.look()
    assert stage.looks(ONE) == 1 + waits
    assert stage.waits == waits


def test_a_driver_in_trouble_vouches_for_nothing(stage: Stage) -> None:
    stage.probe.degraded = ("nvml_timeout",)
    stage.watch.look()
    assert stage.looks(ONE) == 1

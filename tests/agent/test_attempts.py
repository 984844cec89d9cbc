"""The life of an attempt against a runtime that does what the test says."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent import attempts, memory
from agent.attempts import Attempt, AttemptContext
from agent.config import Settings
from agent.contact import Contact
from agent.leases import GpuLeases
from agent.pacing import Alarm
from agent.probe.base import ProbeReading
from agent.runtime.base import (
    EngineUnavailable,
    ImageGone,
    JobOrder,
    JobState,
    LogSlice,
    Observation,
    RuntimeRefused,
)
from agent.state import AttemptRecord, StateStore
from agent.watch import HostWatch
from agent_protocol.messages import AttemptPlan, AttemptSecrets
from agent_protocol.reasons import Owner, reason_get
from tests.agent.host import attempt_body
from tests.agent.waiting import eventually


class NoProbe:
    simulated = True

    def read(self) -> ProbeReading:
        return ProbeReading()

    def busy(self, uuids: frozenset[str]) -> None: ...

    def close(self) -> None: ...


class ScriptedRuntime:
    """`seen` is what `observe` answers; `failures` so many calls fail as if the engine were away."""

    poll_interval_s = 0.01

    def __init__(self) -> None:
        self.seen = Observation(state=JobState.RUNNING, ran_s=0.0)
        self.calls: list[str] = []
        self.failures = 0
        self.refusal: RuntimeRefused | None = None
        self.images_gone = 0
        self.used: int | None = None

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if self.failures > 0:
            self.failures -= 1
            raise EngineUnavailable("away")

    def prepare(self, order: JobOrder, cancelled: Callable[[], bool]) -> str:
        self._called("prepare")
        return "image"

    def start(self, order: JobOrder, image: str) -> None:
        self._called("start")
        if self.images_gone > 0:
            self.images_gone -= 1
            raise ImageGone
        if self.refusal is not None:
            raise self.refusal

    def adopt(self, name: str, log_limit_bytes: int) -> None:
        self._called("adopt")

    def observe(self, name: str) -> Observation:
        return self.seen

    def terminate(self, name: str) -> None:
        self._called("terminate")
        self.seen = Observation(state=JobState.EXITED, exit_code=143, ran_s=1.0)

    def kill(self, name: str) -> None:
        self._called("kill")

    def disk_used_bytes(self, name: str) -> int | None:
        return self.used

    def release(self, name: str) -> None:
        self._called("release")

    def log_read(self, name: str, offset: int, limit: int) -> LogSlice:
        return LogSlice(content=b"", complete=True)


class Stage:
    def __init__(self, folder: Path) -> None:
        self.store = StateStore(folder)
        self.store.identity_create(credential="c", url="u")
        self.runtime = ScriptedRuntime()
        self.stop = threading.Event()
        settings = Settings(url="http://127.0.0.1", state=folder, runtime="process", probe="simulated")
        watch = HostWatch(settings, NoProbe(), self.store, Alarm(self.stop))
        runtime: Any = self.runtime
        self.context = AttemptContext(
            store=self.store,
            runtime=runtime,
            watch=watch,
            leases=GpuLeases(lambda _uuids: None),
            contact=Contact(self.store),
            collect=lambda _attempt, _request: AttemptSecrets(environment={}),
            changed=lambda: None,
            stop=self.stop,
            stop_grace_s=0.05,
            machine_id="machine",
        )

    def attempt(self, **changes: Any) -> Attempt:
        plan = AttemptPlan.parse(attempt_body("true", gpu_uuids=[]))
        values: dict[str, Any] = {
            "attempt_id": plan.attempt_id,
            "job_id": plan.job_id,
            "number": 1,
            "token": plan.token,
            "name": "gpunex-job-1-1",
            "state": "pulling",
            "boot_id": attempts.boot_id(),
            "gpu_uuids": (),
            "time_limit_s": 600,
            "disconnect_grace_s": 600,
            "disk_bytes": 1000,
            "log_limit_bytes": 1000,
            **changes,
        }
        made = Attempt(AttemptRecord(**values), self.context)
        made.plan_give(plan)
        made.ensure_running()
        return made

    def end(self, attempt: Attempt) -> AttemptRecord:
        eventually(lambda: attempt.ended and not attempt._thread_alive(), "the attempt ends")
        return attempt.record


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(attempts, "ENGINE_RETRY_S", 0.01)
    monkeypatch.setattr(attempts, "DISK_LOOK_EVERY_S", 0.0)
    made = Stage(tmp_path / "state")
    yield made
    made.stop.set()
    made.store.close()


def test_an_engine_that_is_away_is_waited_for(stage: Stage) -> None:
    stage.runtime.failures = 5
    attempt = stage.attempt()
    eventually(lambda: attempt.record.state == "running", "it runs in the end")
    stage.runtime.seen = Observation(state=JobState.EXITED, exit_code=0, ran_s=3.9)
    record = stage.end(attempt)
    assert (record.reason, record.exit_code, record.elapsed_s) == ("completed", 0, 3)
    assert stage.runtime.calls[-1] == "release"


def test_a_refusal_ends_it_and_cleans_up(stage: Stage) -> None:
    stage.runtime.refusal = RuntimeRefused("device_injection_failed")
    record = stage.end(stage.attempt())
    assert (record.reason, record.elapsed_s) == ("device_injection_failed", None)
    assert stage.runtime.calls[-1] == "release"


def test_an_image_that_its_owner_removed_before_the_start_is_pulled_again(stage: Stage) -> None:
    stage.runtime.images_gone = 2
    attempt = stage.attempt()
    eventually(lambda: attempt.record.state == "running", "it runs in the end")
    assert stage.runtime.calls[:6] == ["prepare", "start"] * 3


def test_a_machine_that_keeps_no_images_is_to_blame_for_it(stage: Stage) -> None:
    stage.runtime.images_gone = 1000
    record = stage.end(stage.attempt())
    assert (record.reason, reason_get(record.reason or "").owner) == ("container_create_failed", Owner.PROVIDER)
    assert stage.runtime.calls == ["prepare", "start"] * attempts.START_TRIES + ["release"]


def test_a_gpu_whose_memory_is_never_given_back_is_refused_and_a_cancelled_wait_ends(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "MEMORY_LOOK_S", 0.01)
    monkeypatch.setattr(memory, "MEMORY_PATIENCE_S", 0.05)
    watch = stage.context.watch
    monkeypatch.setattr(watch, "gpu_present", lambda _uuid: True)
    monkeypatch.setattr(watch, "memory_held", list)
    record = stage.end(stage.attempt(gpu_uuids=("GPU-one",)))
    assert (record.reason, record.started_boot_s) == ("device_injection_failed", None)
    assert "start" not in stage.runtime.calls
    monkeypatch.setattr(memory, "MEMORY_PATIENCE_S", 600.0)
    waiting = stage.attempt(gpu_uuids=("GPU-one",))
    eventually(lambda: stage.runtime.calls.count("prepare") == 2, "its image is there")
    waiting.stop_request("cancelled")
    assert stage.end(waiting).reason == "cancelled"
    assert "start" not in stage.runtime.calls


def test_a_job_that_writes_more_than_its_disk_is_stopped(stage: Stage) -> None:
    attempt = stage.attempt()
    eventually(lambda: attempt.record.state == "running", "it runs")
    stage.runtime.used = 1001
    assert stage.end(attempt).reason == "disk_limit"
    assert "terminate" in stage.runtime.calls


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (Observation(state=JobState.EXITED, exit_code=0), "completed"),
        (Observation(state=JobState.EXITED, exit_code=0, oom_killed=True), "completed"),
        (Observation(state=JobState.EXITED, exit_code=0, reason="engine_restart"), "engine_restart"),
        (Observation(state=JobState.EXITED, exit_code=1), "nonzero_exit"),
        (Observation(state=JobState.EXITED, exit_code=137), "unknown"),
        (Observation(state=JobState.EXITED, exit_code=137, oom_killed=True), "out_of_memory"),
        (Observation(state=JobState.EXITED), "unknown"),
        (Observation(state=JobState.MISSING), "unknown"),
    ],
)
def test_the_reason_of_an_end(stage: Stage, seen: Observation, reason: str) -> None:
    attempt = stage.attempt()
    eventually(lambda: attempt.record.state == "running", "it runs")
    stage.runtime.seen = seen
    assert stage.end(attempt).reason == reason
    (event,) = stage.store.outbox_batch(10)
    assert event.body["reason"] == reason


def test_what_was_ordered_outranks_the_exit_code_and_another_boot_outranks_both(stage: Stage) -> None:
    stage.runtime.seen = Observation(state=JobState.EXITED, exit_code=0)
    ordered = stage.attempt(state="stopping", created=True, stop_reason="cancelled")
    assert stage.end(ordered).reason == "cancelled"
    rebooted = stage.attempt(state="running", created=True, boot_id="before")
    assert stage.end(rebooted).reason == "host_restart"


def test_an_intent_without_a_container_starts_anew(stage: Stage) -> None:
    """The agent died between writing the intent and creating the container."""
    stage.runtime.seen = Observation(state=JobState.MISSING)
    attempt = stage.attempt(state="starting", created=True)
    stage.runtime.seen = Observation(state=JobState.MISSING)
    eventually(lambda: "start" in stage.runtime.calls, "it is started")
    stage.end(attempt)
    assert stage.runtime.calls[:3] == ["release", "prepare", "start"]


def test_a_fault_in_the_thread_does_not_lose_the_attempt(stage: Stage) -> None:
    def broken(_name: str) -> Observation:
        raise ZeroDivisionError

    working, stage.runtime.observe = stage.runtime.observe, broken  # type: ignore[method-assign]
    attempt = stage.attempt()
    eventually(lambda: attempt.record.state == "running" and not attempt._thread_alive(), "the thread dies")
    stage.runtime.observe = working  # type: ignore[method-assign]
    stage.runtime.seen = Observation(state=JobState.EXITED, exit_code=0)
    attempt.ensure_running()
    assert stage.end(attempt).reason == "completed"


def test_the_agents_end_leaves_the_job_alone(stage: Stage) -> None:
    attempt = stage.attempt()
    eventually(lambda: attempt.record.state == "running", "it runs")
    stage.stop.set()
    attempt.wake()
    eventually(lambda: not attempt._thread_alive(), "the thread ends")
    assert attempt.record.state == "running"
    assert stage.store.outbox_batch(10) == []
    assert "terminate" not in stage.runtime.calls

"""The life of one attempt on this host."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from agent.clock import boot_id, boot_seconds
from agent.collecting import Collect, secrets_collect
from agent.contact import Contact
from agent.leases import GpuLeases
from agent.memory import memory_await
from agent.pacing import Alarm
from agent.runtime.base import (
    EngineUnavailable,
    ImageGone,
    JobOrder,
    JobRuntime,
    JobState,
    Observation,
    RuntimeRefused,
)
from agent.state import AttemptRecord, StateStore
from agent.watch import HostWatch
from agent_protocol.messages import AttemptEnded, AttemptPlan, AttemptSecrets, AttemptStatus, SecretsRequest
from agent_protocol.reasons import COMPLETED

# Left to right and never back; every arrow is a write to disk, followed by a sync.
#
#     pulling ──▶ starting ──▶ running ──▶ stopping ──▶ ended
#        │           │            └─ by itself ──────────▲
#        └───────────┴─ refused, or stopped before it ran┘
#
PULLING = "pulling"  # waits for its GPUs, then for the image; nothing of it is on the host
STARTING = "starting"  # the intent is on disk: a container may exist, and its name finds it again
RUNNING = "running"  # it was started; output is shipped, limits are watched
STOPPING = "stopping"  # TERM was sent for `stop_reason`; KILL follows after the grace, until the runtime says it ended
ENDED = "ended"  # reason and exit code are on disk, their report in the outbox

KILL_EVERY_S = 10.0
DISK_LOOK_EVERY_S = 15.0
ENGINE_RETRY_S = 2.0
# An owner who tidies up may take the image between pull and start. One who does so each time keeps no images.
START_TRIES = 3
_KILLED = 137

Answer = TypeVar("Answer")

log = logging.getLogger("agent.attempt")


class AgentStopping(Exception):
    """The agent ends; the job goes on and is adopted at the next start."""


@dataclass(frozen=True)
class AttemptContext:
    """What attempts share. `changed` is rung when the platform should hear of something at once."""

    store: StateStore
    runtime: JobRuntime
    watch: HostWatch
    leases: GpuLeases
    contact: Contact
    collect: Collect
    changed: Callable[[], None]
    stop: threading.Event
    stop_grace_s: float
    machine_id: str


class Attempt:
    """A record and the thread that leads it to its end. Public methods may be called from any thread."""

    def __init__(self, record: AttemptRecord, context: AttemptContext) -> None:
        self._context = context
        self._lock = threading.RLock()
        self._record = record
        self._plan: AttemptPlan | None = None
        self._secrets: AttemptSecrets | None = None
        self._requested: str | None = None
        self._alarm = Alarm(context.stop)
        self._thread: threading.Thread | None = None
        self._disk_looked_at = boot_seconds()

    @property
    def record(self) -> AttemptRecord:
        with self._lock:
            return self._record

    @property
    def ended(self) -> bool:
        return self.record.state == ENDED

    def ensure_running(self) -> None:
        """Start the thread, or again if a fault in it has ended it."""
        with self._lock:
            if self._record.state == ENDED or self._thread_alive():
                return
            self._thread = threading.Thread(target=self._run, name=f"attempt-{self._record.attempt_id}", daemon=True)
            self._thread.start()

    def _thread_alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def plan_give(self, plan: AttemptPlan) -> None:
        """The platform wants it: the order to run by, and its newest token."""
        with self._lock:
            self._plan = plan
            if plan.token != self._record.token:
                self._record = replace(self._record, token=plan.token)
                self._context.store.attempt_put(self._record)
        self._alarm.ring()

    def stop_request(self, reason: str) -> None:
        """Stop for this reason; the first reason given stays."""
        with self._lock:
            self._requested = self._requested or reason
        self._alarm.ring()

    def wake(self) -> None:
        self._alarm.ring()

    def join(self, timeout_s: float) -> None:
        if self._thread is not None:
            self._thread.join(timeout_s)

    def status(self) -> AttemptStatus:
        record = self.record
        elapsed = record.elapsed_s
        if elapsed is None and record.started_boot_s is not None and record.boot_id == boot_id():
            elapsed = max(0, int(boot_seconds() - record.started_boot_s))
        return AttemptStatus(
            attempt_id=record.attempt_id,
            token=record.token,
            state=record.state,
            elapsed_s=elapsed,
            exit_code=record.exit_code,
            reason=record.reason,
        )

    # The thread

    def _run(self) -> None:
        try:
            self._live()
        except AgentStopping:
            return
        except Exception:
            log.exception("an attempt's thread failed; the next sync starts it again", extra=self._tag())
        finally:
            if self.ended:
                self._context.leases.release(self.record.attempt_id)

    def _live(self) -> None:
        record = self.record
        if not record.created:
            return self._begin()
        seen = self._observe()
        if seen.state is JobState.EXITED:
            return self._end(seen)
        if seen.state is JobState.RUNNING:
            log.info("adopted", extra=self._tag())
            self._context.leases.acquire(record.attempt_id, record.gpu_uuids, self._cancelled)
            self._context.runtime.adopt(record.name, record.log_limit_bytes)
            return self._started(seen)
        if record.state in (RUNNING, STOPPING):
            return self._end(seen)
        # Created and never started, or not even created: the name is free again after this.
        self._engine(self._context.runtime.release, record.name)
        return self._begin()

    def _begin(self) -> None:
        """From nothing to a started job."""
        context, record = self._context, self.record
        while self._plan is None and not self._cancelled() and not self._rebooted():
            self._alarm.wait(60.0)
        if self._rebooted() and not self._cancelled():
            return self._finish("host_restart", exit_code=None, elapsed_s=None)
        if not context.leases.acquire(record.attempt_id, record.gpu_uuids, self._cancelled) or self._cancelled():
            return self._end_unstarted()
        try:
            if not all(context.watch.gpu_present(uuid) for uuid in record.gpu_uuids):
                raise RuntimeRefused("device_injection_failed", "gpu_missing")
            started = self._start()
        except RuntimeRefused as refused:
            return self._finish(refused.reason, exit_code=None, elapsed_s=None, message_code=refused.message_code)
        if not started:
            return self._end_unstarted()
        return self._started(Observation(state=JobState.RUNNING, ran_s=0.0))

    def _rebooted(self) -> bool:
        """Whether the machine has restarted since the attempt was placed on it: nothing of it can be here, its secrets are
        for that boot alone, and the platform refuses what this one says of it."""
        placed = None if self._plan is None else self._plan.boot_id
        return self.record.boot_id != boot_id() or placed not in (None, boot_id())

    def _start(self) -> bool:
        """Image, secrets, container; false when no longer wanted. Raises RuntimeRefused."""
        context = self._context
        for _ in range(START_TRIES):
            image = self._engine(context.runtime.prepare, self._order(pull=True), self._cancelled)
            memory_await(context.watch, self.record.gpu_uuids, self._cancelled, self._alarm.wait, self._tag())
            order = self._order(pull=False)
            if self._cancelled():
                return False
            self._move(state=STARTING, created=True, boot_id=boot_id())
            log.info("starting", extra=self._tag())
            try:
                self._engine(context.runtime.start, order, image)
                return True
            except ImageGone:
                log.warning("the image was removed before the start", extra=self._tag())
        raise ImageGone

    def _order(self, *, pull: bool) -> JobOrder:
        """What to run, with as much of the secrets as is needed now: a pull needs the login of a private image alone, and an
        agent that ends during the pull of a public one has not collected, and so not lost, anything."""
        plan = self._plan
        assert plan is not None
        if plan.secrets and self._secrets is None and (plan.private_image or not pull):
            self._secrets = secrets_collect(
                self._context.collect,
                plan.attempt_id,
                lambda: SecretsRequest(token=self.record.token, boot_id=boot_id()),
                self._given_up,
                self._alarm.wait,
            )
        login = None
        if self._secrets is not None:
            plan = replace(plan, environment={**plan.environment, **self._secrets.environment})
            login = self._secrets.registry_login
        return JobOrder(name=self.record.name, machine_id=self._context.machine_id, plan=plan, login=login)

    def _given_up(self) -> bool:
        """Whether to stop asking for secrets; raises RuntimeRefused after the silence that would end a running job."""
        if self._context.contact.silence_s() >= self.record.disconnect_grace_s:
            raise RuntimeRefused("never_started")
        return self._cancelled()

    def _started(self, seen: Observation) -> None:
        record = self.record
        started = record.started_boot_s
        if started is None or record.boot_id != boot_id():
            started = boot_seconds() - (seen.ran_s or 0.0)
        if record.state == STOPPING and record.stop_reason is not None:
            return self._stop(record.stop_reason)
        self._move(state=RUNNING, started_boot_s=started)
        log.info("running", extra=self._tag())
        return self._watch()

    def _watch(self) -> None:
        """Until it ends by itself or has to be stopped."""
        while True:
            seen = self._observe()
            if seen.state is not JobState.RUNNING:
                return self._end(seen)
            reason = self._must_stop()
            if reason is not None:
                return self._stop(reason)
            self._alarm.wait(self._context.runtime.poll_interval_s)

    def _must_stop(self) -> str | None:
        record, now = self.record, boot_seconds()
        if self._requested is not None:
            return self._requested
        if record.started_boot_s is not None and now - record.started_boot_s >= record.time_limit_s:
            return "time_limit"
        if self._context.contact.silence_s() >= record.disconnect_grace_s:
            return "offline"
        if record.disk_bytes and now - self._disk_looked_at >= DISK_LOOK_EVERY_S:
            self._disk_looked_at = now
            used = self._engine(self._context.runtime.disk_used_bytes, record.name)
            if used is not None and used > record.disk_bytes:
                return "disk_limit"
        return None

    def _stop(self, reason: str) -> None:
        """TERM, the grace, then KILL until it is confirmed."""
        runtime, name = self._context.runtime, self.record.name
        self._move(state=STOPPING, stop_reason=reason)
        log.info("stopping", extra={**self._tag(), "reason": reason})
        self._engine(runtime.terminate, name)
        kill_at = boot_seconds() + self._context.stop_grace_s
        while True:
            seen = self._observe()
            if seen.state is not JobState.RUNNING:
                return self._end(seen)
            if boot_seconds() >= kill_at:
                self._engine(runtime.kill, name)
                kill_at = boot_seconds() + KILL_EVERY_S
            self._alarm.wait(min(runtime.poll_interval_s, max(0.01, kill_at - boot_seconds())))

    # The end

    def _end(self, seen: Observation) -> None:
        record = self.record
        ran = seen.ran_s
        if ran is None and record.started_boot_s is not None and record.boot_id == boot_id():
            ran = boot_seconds() - record.started_boot_s
        self._finish(
            self._reason(seen),
            exit_code=seen.exit_code,
            elapsed_s=None if ran is None else int(ran),
            oom_killed=seen.oom_killed,
            message_code=seen.message_code,
        )

    def _reason(self, seen: Observation) -> str:
        """Why it ended. Exit code 0 or the end of the log prove nothing alone: what was ordered, and whether engine and
        host are still the ones that ran it, come first; 137 alone is unknown."""
        record = self.record
        if record.stop_reason is not None:
            return record.stop_reason
        if record.boot_id != boot_id():
            return "host_restart"
        if seen.reason is not None:
            return seen.reason
        if seen.exit_code is None:
            return "unknown"
        if seen.exit_code == 0:
            return COMPLETED
        if seen.oom_killed:
            return "out_of_memory"
        if record.gpu_uuids:
            self._context.watch.look()
            fault = self._context.watch.fault_since(record.gpu_uuids, record.started_boot_s or 0.0)
            if fault is not None:
                return fault
        return "unknown" if seen.exit_code == _KILLED else "nonzero_exit"

    def _end_unstarted(self) -> None:
        self._finish(self._requested or "never_started", exit_code=None, elapsed_s=None)

    def _finish(
        self,
        reason: str,
        *,
        exit_code: int | None,
        elapsed_s: int | None,
        oom_killed: bool = False,
        message_code: str | None = None,
    ) -> None:
        with self._lock:
            record = self._record = replace(
                self._record, state=ENDED, reason=reason, exit_code=exit_code, elapsed_s=elapsed_s
            )
            event = AttemptEnded(
                attempt_id=record.attempt_id,
                token=record.token,
                exit_code=exit_code,
                reason=reason,
                elapsed_s=elapsed_s,
                oom_killed=oom_killed,
                message_code=message_code,
            )
            self._plan = self._secrets = None
            self._context.store.attempt_end(record, event.to_dict())
        log.info("ended", extra={**self._tag(), "reason": reason, "exit_code": exit_code})
        self._context.changed()
        self._engine(self._context.runtime.release, record.name)
        self._context.leases.release(record.attempt_id)
        if record.gpu_uuids:
            self._context.watch.look()
        self._context.changed()

    # Small things

    def _move(self, **changes: Any) -> None:
        with self._lock:
            self._record = replace(self._record, **changes)
            self._context.store.attempt_put(self._record)
        self._context.changed()

    def _observe(self) -> Observation:
        return self._engine(self._context.runtime.observe, self.record.name)

    def _engine(self, call: Callable[..., Answer], *arguments: Any) -> Answer:
        """The call, repeated while the engine does not answer; the agent's end breaks it off."""
        while True:
            if self._context.stop.is_set():
                raise AgentStopping
            try:
                return call(*arguments)
            except EngineUnavailable as error:
                log.warning("the engine does not answer", extra={**self._tag(), "kind": str(error)})
                self._alarm.wait(ENGINE_RETRY_S)

    def _cancelled(self) -> bool:
        """Whether a start is no longer wanted; raises AgentStopping when the agent ends."""
        if self._context.stop.is_set():
            raise AgentStopping
        return self._requested is not None

    def _tag(self) -> dict[str, Any]:
        return {"attempt": self.record.attempt_id, "job": self.record.name}

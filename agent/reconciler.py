"""Wanted against found. Level-triggered: every plan is compared with everything there is, whatever was said before."""

import logging
import threading

from agent.attempts import ENDED, PULLING, RUNNING, Attempt, AttemptContext
from agent.benchmarks import BenchmarkManager
from agent.clock import boot_id
from agent.runtime.base import EngineUnavailable, FoundJob, job_name
from agent.state import AttemptRecord
from agent_protocol.errors import ProtocolError
from agent_protocol.messages import AttemptPlan, AttemptStatus, BenchmarkPlan, OrphanFound, PlanItem

SWEEP_EVERY_S = 60.0

log = logging.getLogger("agent.reconciler")


class Reconciler:
    """Owns the attempts. `apply` is the sync thread's; `sweep` is the housekeeper's."""

    def __init__(self, context: AttemptContext, benchmarks: BenchmarkManager) -> None:
        self._context = context
        self._benchmarks = benchmarks
        self._lock = threading.RLock()
        self._attempts = {record.attempt_id: Attempt(record, context) for record in context.store.attempts()}
        self._wanted: dict[str, AttemptPlan] | None = None
        self._planned = threading.Event()

    def recover(self) -> None:
        """After a start: take up what an earlier agent left, before the platform has said anything."""
        for attempt in self._attempts.values():
            attempt.ensure_running()

    def apply(self, items: tuple[PlanItem, ...]) -> None:
        """Make the plan the wanted state."""
        wanted: dict[str, AttemptPlan] = {}
        runs: list[BenchmarkPlan] = []
        for item in items:
            try:
                body = item.typed_body()
            except ProtocolError as error:
                log.error("a plan item cannot be read", extra={"key": item.key, "why": str(error)})
                continue
            if isinstance(body, AttemptPlan):
                wanted[body.attempt_id] = body
            else:
                runs.append(body)
        unreadable = {item.key for item in items} - wanted.keys() - {run.run_id for run in runs}
        with self._lock:
            self._wanted = wanted
            for plan in wanted.values():
                self._want(plan)
            for attempt_id, attempt in self._attempts.items():
                # An item we cannot read is still wanted: stopping its job would be our mistake, not the platform's.
                if attempt_id not in wanted and attempt_id not in unreadable and not attempt.ended:
                    attempt.stop_request("orphaned")
        self._benchmarks.apply(runs)
        self._planned.set()

    def _want(self, plan: AttemptPlan) -> None:
        attempt = self._attempts.get(plan.attempt_id)
        if attempt is None:
            attempt = self._attempts[plan.attempt_id] = self._new(plan)
        if attempt.ended:
            return
        attempt.plan_give(plan)
        if plan.desired == "stop":
            attempt.stop_request(plan.stop_reason or "platform_stop")
        attempt.ensure_running()

    def _new(self, plan: AttemptPlan, *, created: bool = False) -> Attempt:
        """A record on disk and the attempt around it. One that has started here, before the state folder was lost, is found
        or has ended; it is never begun a second time."""
        record = AttemptRecord(
            attempt_id=plan.attempt_id,
            job_id=plan.job_id,
            number=plan.number,
            token=plan.token,
            name=job_name(plan.job_id, plan.number),
            state=RUNNING if plan.started else PULLING,
            boot_id=boot_id(),
            gpu_uuids=plan.gpu_uuids,
            time_limit_s=plan.time_limit_s,
            disconnect_grace_s=plan.disconnect_grace_s,
            disk_bytes=plan.limits.disk_bytes,
            log_limit_bytes=plan.log_limit_bytes,
            created=created or bool(plan.started),
        )
        self._context.store.attempt_put(record)
        return Attempt(record, self._context)

    def tidy(self) -> None:
        """After each sync: forget ended attempts that left the plan, once the platform has their end and their log, and
        start again whatever thread a fault has ended."""
        with self._lock:
            for attempt in self._attempts.values():
                attempt.ensure_running()
            wanted = self._wanted
            if wanted is None:
                return
            gone = [
                attempt.record
                for attempt_id, attempt in self._attempts.items()
                if attempt.ended and attempt_id not in wanted
            ]
        logs_done = {record.attempt_id for record in self._context.store.attempts() if record.log_done}
        for record in gone:
            if record.attempt_id in logs_done and not self._context.store.outbox_waits(record.attempt_id):
                self._context.runtime.forget(record.name)
                self._context.store.attempt_delete(record.attempt_id)
                with self._lock:
                    del self._attempts[record.attempt_id]
        self._benchmarks.tidy()

    def statuses(self) -> tuple[AttemptStatus, ...]:
        """Running ones first: should there ever be too many to report, the ended can wait."""
        with self._lock:
            attempts = sorted(self._attempts.values(), key=lambda attempt: attempt.ended)
        return tuple(attempt.status() for attempt in attempts)

    def active(self) -> int:
        """Attempts that have not ended."""
        with self._lock:
            return sum(not attempt.ended for attempt in self._attempts.values())

    def wake(self) -> None:
        with self._lock:
            for attempt in self._attempts.values():
                attempt.wake()

    def join(self, timeout_s: float) -> None:
        with self._lock:
            attempts = list(self._attempts.values())
        for attempt in attempts:
            attempt.join(timeout_s)

    # Orphans

    def sweep_run(self, stop: threading.Event) -> None:
        """The housekeeper: after the first plan, then once a minute."""
        while not self._planned.wait(0.2):
            if stop.is_set():
                return
        while not stop.is_set():
            try:
                self.sweep()
            except EngineUnavailable as error:
                log.warning("cannot look for orphans", extra={"kind": str(error)})
            stop.wait(SWEEP_EVERY_S)

    def sweep(self) -> None:
        """Adopt jobs that are wanted but of which we have no record (a lost state folder); end all other strangers."""
        for job in self._context.runtime.found():
            # Asked for each, after it was found: a benchmark names its container before it is created.
            if job.name in self._benchmarks.names():
                continue
            with self._lock:
                records = {attempt.record.name: attempt.record for attempt in self._attempts.values()}
                wanted = (self._wanted or {}).get(job.attempt_id or "")
                if wanted is not None and job.name not in records and self._adopt(wanted):
                    continue
            if job.name not in records:
                self._remove(job)
            elif records[job.name].state == ENDED:
                # An earlier agent was stopped between the end and the cleaning up.
                self._context.runtime.release(job.name)
        self._leftovers_remove()
        self._context.runtime.tidy()

    def _leftovers_remove(self) -> None:
        """Networks and volumes whose agent died between removing, or before making, the container they were for."""
        for name in self._context.runtime.leftovers():
            if name in self._benchmarks.names():
                continue
            with self._lock:
                live = any(attempt.record.name == name and not attempt.ended for attempt in self._attempts.values())
            if not live:
                log.warning("what an earlier agent left is removed", extra={"job": name})
                self._context.runtime.release(name)

    def _adopt(self, plan: AttemptPlan) -> bool:
        if plan.attempt_id in self._attempts:
            return False
        attempt = self._attempts[plan.attempt_id] = self._new(plan, created=True)
        attempt.plan_give(plan)
        attempt.ensure_running()
        return True

    def _remove(self, job: FoundJob) -> None:
        log.warning("an orphan is ended", extra={"job": job.name})
        runtime = self._context.runtime
        runtime.kill(job.name)
        runtime.release(job.name)
        runtime.forget(job.name)
        self._context.store.outbox_add("orphan", OrphanFound(name=job.name).to_dict())
        self._context.changed()

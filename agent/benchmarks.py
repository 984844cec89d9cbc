"""Benchmarks that the plan wants, one thread each, never beside a job on the same GPU."""

import logging
import threading
from collections.abc import Callable

from agent.bench.base import BenchmarkRefused, BenchmarkRunner
from agent.clock import boot_seconds
from agent.leases import GpuLeases
from agent.state import StateStore
from agent.watch import HostWatch
from agent_protocol.messages import BenchmarkFailed, BenchmarkPlan, BenchmarkReport, BenchmarkStatus

log = logging.getLogger("agent.benchmarks")


class BenchmarkManager:
    """waiting (for the GPU) → running → done | failed. A finished run is remembered until it has left the plan, so that
    a restart does not measure twice; one that the restart interrupted is measured again."""

    def __init__(
        self,
        runner: BenchmarkRunner,
        store: StateStore,
        leases: GpuLeases,
        watch: HostWatch,
        changed: Callable[[], None],
        stop: threading.Event,
    ) -> None:
        self._runner = runner
        self._store = store
        self._leases = leases
        self._watch = watch
        self._changed = changed
        self._stop = stop
        self._lock = threading.Lock()
        self._states = store.benchmarks()
        self._progress: dict[str, int] = {}
        self._wanted: frozenset[str] = frozenset()

    def apply(self, plans: list[BenchmarkPlan]) -> None:
        with self._lock:
            self._wanted = frozenset(plan.run_id for plan in plans)
            fresh = [plan for plan in plans if plan.run_id not in self._states]
            for plan in fresh:
                self._states[plan.run_id] = "waiting"
        for plan in fresh:
            threading.Thread(target=self._run, args=(plan,), name=f"benchmark-{plan.run_id}", daemon=True).start()

    def tidy(self) -> None:
        """Forget finished runs that left the plan and whose report has arrived."""
        with self._lock:
            gone = [
                run_id
                for run_id, state in self._states.items()
                if state in ("done", "failed") and run_id not in self._wanted
            ]
        for run_id in gone:
            if not self._store.outbox_waits(run_id):
                self._store.benchmark_delete(run_id)
                with self._lock:
                    del self._states[run_id]
                    self._progress.pop(run_id, None)

    def names(self) -> frozenset[str]:
        """Containers of benchmarks: marked as ours, in no record of an attempt, and no orphans."""
        return self._runner.names()

    def statuses(self) -> tuple[BenchmarkStatus, ...]:
        with self._lock:
            return tuple(
                BenchmarkStatus(run_id=run_id, state=state, progress_percent=self._progress.get(run_id))
                for run_id, state in self._states.items()
            )

    def _run(self, plan: BenchmarkPlan) -> None:
        try:
            if self._leases.acquire(plan.run_id, (plan.gpu_uuid,), lambda: self._unwanted(plan)):
                self._measure(plan)
            else:
                self._fail(plan, "interrupted")
        except Exception:
            log.exception("a benchmark failed", extra={"run": plan.run_id})
            self._fail(plan, "unknown")
        finally:
            self._leases.release(plan.run_id)
            self._changed()

    def _measure(self, plan: BenchmarkPlan) -> None:
        self._state(plan, "running")
        deadline = boot_seconds() + plan.time_limit_s

        def cancelled(seconds: float) -> bool:
            if boot_seconds() + seconds > deadline:
                raise BenchmarkRefused("time_limit")
            return self._stop.wait(seconds) or self._unwanted(plan)

        try:
            if not self._watch.gpu_present(plan.gpu_uuid):
                raise BenchmarkRefused("gpu_missing")
            result = self._runner.run(plan, lambda percent: self._progressed(plan, percent), cancelled)
        except BenchmarkRefused as refused:
            self._fail(plan, refused.reason)
            return
        report = BenchmarkReport(
            run_id=plan.run_id,
            nonce=plan.challenge.nonce,
            suite_version=plan.suite_version,
            gpu_uuid=plan.gpu_uuid,
            metrics=result.metrics,
            conditions=result.conditions,
        )
        self._store.benchmark_end(plan.run_id, "done", "benchmark_report", report.to_dict())
        self._state(plan, "done")
        log.info("benchmark done", extra={"run": plan.run_id})

    def _fail(self, plan: BenchmarkPlan, reason: str) -> None:
        """The agent's own end is no failure of the run: the next agent measures it again."""
        if self._stop.is_set():
            return
        failure = BenchmarkFailed(run_id=plan.run_id, nonce=plan.challenge.nonce, reason=reason)
        self._store.benchmark_end(plan.run_id, "failed", "benchmark_failed", failure.to_dict())
        self._state(plan, "failed")
        log.info("benchmark failed", extra={"run": plan.run_id, "reason": reason})

    def _unwanted(self, plan: BenchmarkPlan) -> bool:
        with self._lock:
            return self._stop.is_set() or plan.run_id not in self._wanted

    def _state(self, plan: BenchmarkPlan, state: str) -> None:
        with self._lock:
            self._states[plan.run_id] = state
        self._changed()

    def _progressed(self, plan: BenchmarkPlan, percent: int) -> None:
        with self._lock:
            self._progress[plan.run_id] = max(0, min(100, percent))

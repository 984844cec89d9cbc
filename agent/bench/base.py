"""What a benchmark is asked and what it answers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from agent_protocol.messages import (
    BenchCommit,
    BenchCommitted,
    BenchmarkConditions,
    BenchmarkMetrics,
    BenchmarkPlan,
    BenchOpen,
    BenchOpened,
    BenchStart,
    BenchStarted,
)

Cancelled = Callable[[float], bool]
"""Waits at most so many seconds; true: give up. Raises BenchmarkRefused("time_limit") when there is no time left."""


class BenchmarkRefused(Exception):
    """No figures. `reason` is one of agent_protocol.reasons.BENCHMARK_FAILURES."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Measurement:
    metrics: BenchmarkMetrics
    conditions: BenchmarkConditions


class BenchmarkRunner(Protocol):
    def run(self, plan: BenchmarkPlan, progress: Callable[[int], None], cancelled: Cancelled) -> Measurement:
        """Measure the plan's GPU, alone on it, and answer the challenge.

        `progress(percent)` tells how far it is; when `cancelled` says so: BenchmarkRefused("interrupted"). Raises
        BenchmarkRefused.
        """

    def names(self) -> frozenset[str]:
        """Containers that belong to a run of this moment; whoever looks for orphans leaves them alone."""


class ChallengeDesk(Protocol):
    """The platform's side of a challenge (agent.client.PlatformClient). All raise ClientError."""

    def bench_start(self, run_id: str, start: BenchStart) -> BenchStarted:
        """A seed."""

    def bench_commit(self, run_id: str, commit: BenchCommit) -> BenchCommitted:
        """The rows to open."""

    def bench_open(self, run_id: str, opening: BenchOpen) -> BenchOpened:
        """Taken."""

"""What a benchmark is asked and what it answers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from agent_protocol.messages import BenchmarkConditions, BenchmarkMetrics, BenchmarkPlan


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
    def run(
        self, plan: BenchmarkPlan, progress: Callable[[int], None], cancelled: Callable[[float], bool]
    ) -> Measurement:
        """Measure the plan's GPU, alone on it.

        `progress(percent)` tells how far it is; `cancelled(seconds)` waits at most so long and says whether to give up
        (then BenchmarkRefused("interrupted")). Raises BenchmarkRefused.
        """

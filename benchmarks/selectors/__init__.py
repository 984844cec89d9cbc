from benchmarks.selectors.page import MachineCards, benchmark_cards, gpu_of_provider, runs_open
from benchmarks.selectors.suites import fleet_medians, limits_at, reference_of, suite_at
from benchmarks.selectors.verdicts import (
    Service,
    benchmark_baseline,
    comparable_runs,
    recent_meets,
    service_of,
    verdict_of,
    verdicts_in_review,
)

__all__ = [
    "MachineCards",
    "Service",
    "benchmark_baseline",
    "benchmark_cards",
    "comparable_runs",
    "fleet_medians",
    "gpu_of_provider",
    "limits_at",
    "recent_meets",
    "reference_of",
    "runs_open",
    "service_of",
    "suite_at",
    "verdict_of",
    "verdicts_in_review",
]

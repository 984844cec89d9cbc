from benchmarks.selectors.suites import fleet_medians, limits_at, reference_of, suite_at
from benchmarks.selectors.verdicts import (
    Service,
    benchmark_baseline,
    comparable_runs,
    recent_meets,
    service_of,
    verdict_of,
)

__all__ = [
    "Service",
    "benchmark_baseline",
    "comparable_runs",
    "fleet_medians",
    "limits_at",
    "recent_meets",
    "reference_of",
    "service_of",
    "suite_at",
    "verdict_of",
]

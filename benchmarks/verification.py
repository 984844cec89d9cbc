"""Judging a benchmark report. Pure: figures, references and limits in; reasons out. Unknown is never taken for zero.

Values are Decimal: TFLOPS, GB/s (10⁹), MB/s and Mbit/s (10⁶), milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_EVEN, Decimal

GPU_METRICS = (
    "fp32_tflops",
    "fp16_tflops",
    "tensor_tflops",
    "memory_read_gbps",
    "memory_write_gbps",
    "memory_copy_gbps",
)
MACHINE_METRICS = ("storage_read_mbps", "storage_write_mbps", "network_down_mbps", "network_up_mbps", "latency_ms")
METRICS = GPU_METRICS + MACHINE_METRICS

Values = Mapping[str, Decimal | None]

BASELINE_RUNS = 3
"""Runs made back to back at enrolment (or after a change of card, driver or suite): their median is a card's baseline."""
JUDGED_RUNS = 3
BELOW_TO_DELIST = 2
"""Two of the last three runs below the minimum delist a listed card; one bad run between two good ones delists nobody."""

# An A100 SXM 80 GB as healthy cards measure: performance index 100. Both kinds of arithmetic count alike.
INDEX_UNIT = {"fp16_tflops": Decimal(239), "fp32_tflops": Decimal(18)}


@dataclass(frozen=True)
class Limits:
    """The thresholds in force (benchmarks.Threshold holds them as dated rows; these names are the rows' names)."""

    gpu_share_of_fleet_median: Decimal
    gpu_share_of_reference: Decimal
    fleet_median_machines: Decimal
    peak_factor: Decimal
    network_down_mbps: Decimal
    network_up_mbps: Decimal
    network_mbps_per_gib: Decimal
    network_cap_mbps: Decimal
    latency_ms: Decimal
    storage_read_mbps: Decimal
    storage_write_mbps: Decimal


@dataclass(frozen=True)
class Reference:
    """A GPU model's figures per metric: what healthy cards measure, and what the vendor says is the peak. None: unknown."""

    measured: Values = field(default_factory=dict)
    peak: Values = field(default_factory=dict)


@dataclass(frozen=True)
class Reason:
    """One finding. code: ``below_fp16_tflops``, ``network_too_slow``, ``missing_…``, ``above_peak_…``."""

    code: str
    metric: str
    measured: Decimal | None
    limit: Decimal | None

    def to_dict(self) -> dict[str, str | None]:
        return {
            "code": self.code,
            "metric": self.metric,
            "measured": None if self.measured is None else str(self.measured),
            "limit": None if self.limit is None else str(self.limit),
        }


@dataclass(frozen=True)
class Judgement:
    """below: what misses a minimum, missing figures included. suspicious: too good to be true, so a person looks.

    health_percent: the worst GPU metric ÷ the model's measured reference. performance_index: A100 80 GB = 100.
    """

    below: tuple[Reason, ...]
    suspicious: tuple[Reason, ...]
    health_percent: Decimal | None
    performance_index: Decimal | None

    @property
    def meets_minimum(self) -> bool:
        return not self.below


def minimum_of(
    metric: str, *, reference: Reference, limits: Limits, fleet_medians: Values | None, machine_memory_gib: Decimal
) -> Decimal | None:
    """The least (for latency: the most) a metric may show; None where nothing is known to compare with."""
    if metric in GPU_METRICS:
        median = (fleet_medians or {}).get(metric)
        if median is not None:
            return median * limits.gpu_share_of_fleet_median
        measured = reference.measured.get(metric)
        return None if measured is None else measured * limits.gpu_share_of_reference
    if metric == "network_down_mbps":
        # More memory means larger models to fetch before a rental is of any use.
        by_memory = min(limits.network_mbps_per_gib * machine_memory_gib, limits.network_cap_mbps)
        return max(limits.network_down_mbps, by_memory)
    limit: Decimal = getattr(limits, metric)
    return limit


_MACHINE_CODES = {
    "network_down_mbps": "network_too_slow",
    "network_up_mbps": "upload_too_slow",
    "latency_ms": "latency_too_high",
    "storage_read_mbps": "storage_read_too_slow",
    "storage_write_mbps": "storage_write_too_slow",
}


def below_code(metric: str) -> str:
    """``below_fp16`` for a GPU metric, a name of its own for a machine's."""
    return _MACHINE_CODES.get(metric) or "below_" + metric.rpartition("_")[0]


PROOF_CODES = ("proof_wrong", "proof_above_peak", "proof_withheld", "claim_above_timing")
REASON_CODES = (
    *(below_code(metric) for metric in METRICS),
    *("missing_" + metric.rpartition("_")[0] for metric in METRICS),
    *("above_peak_" + metric.rpartition("_")[0] for metric in GPU_METRICS),
    *PROOF_CODES,
)


def judge(
    values: Values, *, reference: Reference, limits: Limits, fleet_medians: Values | None, machine_memory_gib: Decimal
) -> Judgement:
    """Hold one report against minimum and peak. A metric that is absent or None is named as missing, not read as 0."""
    below: list[Reason] = []
    suspicious: list[Reason] = []
    for metric in METRICS:
        value = values.get(metric)
        short = metric.rpartition("_")[0]
        minimum = minimum_of(
            metric,
            reference=reference,
            limits=limits,
            fleet_medians=fleet_medians,
            machine_memory_gib=machine_memory_gib,
        )
        if value is None:
            below.append(Reason("missing_" + short, metric, None, minimum))
            continue
        misses = minimum is not None and (value > minimum if metric == "latency_ms" else value < minimum)
        if misses:
            below.append(Reason(below_code(metric), metric, value, minimum))
        peak = reference.peak.get(metric)
        if peak is not None and value > peak * limits.peak_factor:
            suspicious.append(Reason("above_peak_" + short, metric, value, peak * limits.peak_factor))
    return Judgement(
        below=tuple(below),
        suspicious=tuple(suspicious),
        health_percent=health_percent(values, reference),
        performance_index=performance_index(values),
    )


PROOF_METRIC = "tensor_tflops"
CLAIMS = ("fp16_tflops", "tensor_tflops")
"""Figures of the kind of work that the challenge is."""


@dataclass(frozen=True)
class Proof:
    """What the platform found about a run's challenge.

    right: whether the opened rows were those of the products. proven_tflops: the chain's work by the platform's own clock.
    claim_limit_tflops: the most that may be claimed beside it; None where nothing is claimed for a real card.
    """

    right: bool
    proven_tflops: Decimal
    claim_limit_tflops: Decimal | None


def judge_proof(judgement: Judgement, proof: Proof, values: Values, reference: Reference, limits: Limits) -> Judgement:
    """The judgement with what the challenge showed.

    Wrong rows, and more than the card can do, are too strange for a rule: a person looks. A claim that the timing does not
    bear out may be a slow line or a restart, so it counts as a run below the minimum, which is repeated at once.
    """
    suspicious, below = list(judgement.suspicious), list(judgement.below)
    if not proof.right:
        suspicious.append(Reason("proof_wrong", PROOF_METRIC, None, None))
    peak = reference.peak.get(PROOF_METRIC)
    if peak is not None and proof.proven_tflops > peak * limits.peak_factor:
        suspicious.append(
            Reason("proof_above_peak", PROOF_METRIC, _rounded(proof.proven_tflops, "0.0001"), peak * limits.peak_factor)
        )
    for metric in CLAIMS if proof.claim_limit_tflops is not None else ():
        value = values.get(metric)
        if value is not None and proof.claim_limit_tflops is not None and value > proof.claim_limit_tflops:
            below.append(Reason("claim_above_timing", metric, value, _rounded(proof.claim_limit_tflops, "0.0001")))
    return replace(judgement, suspicious=tuple(suspicious), below=tuple(below))


def health_percent(values: Values, reference: Reference) -> Decimal | None:
    """The worst GPU metric against what healthy cards of the model measure; None where nothing can be compared."""
    ratios = []
    for metric in GPU_METRICS:
        value, measured = values.get(metric), reference.measured.get(metric)
        if value is not None and measured:
            ratios.append(value / measured)
    return _rounded(100 * min(ratios), "0.1") if ratios else None


def performance_index(values: Values) -> Decimal | None:
    """The geometric mean of the arithmetic metrics against an A100 SXM 80 GB (= 100); None if either is unknown."""
    product = Decimal(1)
    for metric, unit in INDEX_UNIT.items():
        value = values.get(metric)
        if value is None:
            return None
        product *= value / unit
    return _rounded(100 * product.sqrt(), "0.1")


def _rounded(value: Decimal, step: str) -> Decimal:
    return value.quantize(Decimal(step), rounding=ROUND_HALF_EVEN)


def standing(*, recent_meets: Sequence[bool], was_listed: bool | None, in_review: bool) -> bool:
    """Whether a GPU may be offered after its newest run. recent_meets: newest first, the newest included.

    was_listed: its standing before (None: first run). A good run lists again by itself, but never out of a review. A bad
    run delists a listed card only as the second of the last three; a card that never passed is not listed by a bad run.
    """
    if in_review:
        return False
    if recent_meets[0]:
        return True
    bad = sum(not meets for meets in recent_meets[:JUDGED_RUNS])
    return bool(was_listed) and bad < BELOW_TO_DELIST


MATRIX_SIZES = ((Decimal(70), 16_384), (Decimal(16), 8192), (Decimal(0), 4096))
"""n by GiB of memory: the larger, the more of the time is multiplication; three FP32 matrices stay well inside the memory."""
SIMULATED_SIZE, SIMULATED_ROUNDS = 16, 8
"""A card that does not exist answers in plain Python, on a processor that it shares with others."""


def matrix_size(memory_gib: Decimal) -> int:
    return next(n for least, n in MATRIX_SIZES if memory_gib >= least)

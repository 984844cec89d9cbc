"""The public reliability formula, version 1: ``S = 100 · U · C · B``. Pure: evidence in, parts out; no clock, no database.

Recent weighs more: everything counts with ``2 ** (-age / 14 days)`` over a rolling 90 days, so a bad week fades and a good
one is earned back. U is uptime against the declared schedule, C completed jobs, B speed against the card's own baseline.
Scores are ratios shown to people, not money, so they are floats here and numeric(6,3) in the database.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import log
from statistics import median
from uuid import UUID

from core import spans
from core.spans import Span

FORMULA_VERSION = 1
WINDOW = timedelta(days=90)
HALF_LIFE = timedelta(days=14)
"""Long enough that one bad evening is not the whole score, short enough that a repaired host recovers within a month."""
JOINED_GAP = timedelta(seconds=90)
"""A silence this short is no outage: the platform itself calls a host offline only after it."""
FORGIVEN = timedelta(minutes=10)
FORGIVEN_PERIOD = timedelta(days=30)
"""A reboot for a kernel update a month costs nothing."""
PRIOR_CLEAN_JOBS = 10.0
"""Clean jobs of one GPU-hour that everybody starts with: one early failure does not ruin a newcomer."""
JOB_HOURS_LEAST, JOB_HOURS_MOST = 0.1, 10.0
"""A job's weight in GPU-hours: a failed smoke test counts little, one month-long job does not decide a score."""
BASELINE_RUNS = 3
RECENT_RUNS = 3


@dataclass(frozen=True)
class GpuEvidence:
    """What is known of one GPU. Spans need not be tidy.

    declared: when its provider said it would be offered (schedule ∩ time in service). online: its machine's intervals, an
    open one ending at the last heartbeat. unavailable: taken away by the provider or its fault (drained, GPU unhealthy,
    delisted). excused: platform outages, noticed maintenance. consistency: 0–1, or None before the first benchmark.
    """

    gpu_id: UUID
    machine_id: UUID
    declared: Sequence[Span] = ()
    online: Sequence[Span] = ()
    unavailable: Sequence[Span] = ()
    excused: Sequence[Span] = ()
    consistency: float | None = None


@dataclass(frozen=True)
class JobEvidence:
    """A job that ended by its own completion or by the provider's fault; others' faults are not evidence at all."""

    source: str
    machine_id: UUID
    completed: bool
    gpu_seconds: int
    at: datetime


@dataclass(frozen=True)
class Evidence:
    as_of: datetime
    gpus: tuple[GpuEvidence, ...] = ()
    jobs: tuple[JobEvidence, ...] = ()

    def of_machine(self, machine_id: UUID) -> Evidence:
        return replace(
            self,
            gpus=tuple(gpu for gpu in self.gpus if gpu.machine_id == machine_id),
            jobs=tuple(job for job in self.jobs if job.machine_id == machine_id),
        )

    def without_outage(self, machine_id: UUID, gap: Span) -> Evidence:
        """The same past, had that machine's GPUs been available during the gap."""

        def mended(gpu: GpuEvidence) -> GpuEvidence:
            if gpu.machine_id != machine_id:
                return gpu
            return replace(gpu, online=[*gpu.online, gap], unavailable=spans.subtract(gpu.unavailable, [gap]))

        return replace(self, gpus=tuple(map(mended, self.gpus)))

    def without_job(self, source: str) -> Evidence:
        return replace(self, jobs=tuple(job for job in self.jobs if job.source != source))


@dataclass(frozen=True)
class Parts:
    """U, C and B as shares of one and S as points of 100. U and S are None while nothing was declared yet.

    evidence_seconds: the longest declared time of one GPU inside the window.
    """

    uptime: float | None
    completion: float
    consistency: float | None
    score: float | None
    evidence_seconds: int


def weight_at(at: datetime, as_of: datetime) -> float:
    """1 now, one half after 14 days, 0 outside the window."""
    age = as_of - at
    return float(2 ** (-(age / HALF_LIFE))) if timedelta(0) <= age <= WINDOW else 0.0


def weight_of(tidy: Iterable[Span], as_of: datetime) -> float:
    """The weight integrated over spans inside the window, in seconds: exact, so no bucket size enters the score."""
    scale = HALF_LIFE.total_seconds() / log(2)
    return scale * sum(
        2 ** (-((as_of - end) / HALF_LIFE)) - 2 ** (-((as_of - start) / HALF_LIFE)) for start, end in tidy
    )


def declared_spans(gpu: GpuEvidence, as_of: datetime) -> list[Span]:
    """What counts against this GPU: declared, inside the window, less what is excused."""
    return spans.subtract(spans.clip(gpu.declared, as_of - WINDOW, as_of), gpu.excused)


def online_spans(online: Iterable[Span], as_of: datetime) -> list[Span]:
    """Online time with short silences closed, the one that is still going on at ``as_of`` included."""
    begun = [(start, min(end, as_of)) for start, end in online if start < as_of]
    return [
        (start, as_of if as_of - end <= JOINED_GAP else end) for start, end in spans.union(begun, joining=JOINED_GAP)
    ]


def missing_spans(gpu: GpuEvidence, as_of: datetime) -> list[Span]:
    """Declared time in which the GPU was not available, before anything is forgiven."""
    available = spans.subtract(online_spans(gpu.online, as_of), gpu.unavailable)
    return spans.subtract(declared_spans(gpu, as_of), available)


def missing_weight(gpu: GpuEvidence, as_of: datetime) -> float:
    """The weight of missing time. Of each 30 days, counted back from ``as_of``, ten minutes are forgiven.

    They are taken off evenly over the period's missing time, so that the order of outages does not matter.
    """
    missing = missing_spans(gpu, as_of)
    total = 0.0
    for number in range(WINDOW // FORGIVEN_PERIOD):
        end = as_of - number * FORGIVEN_PERIOD
        part = spans.clip(missing, end - FORGIVEN_PERIOD, end)
        lasting = spans.length(part)
        if lasting > FORGIVEN:
            total += weight_of(part, as_of) * (1 - FORGIVEN / lasting)
    return total


def completion_of(jobs: Iterable[JobEvidence], as_of: datetime) -> float:
    """C: completed ÷ (completed + provider's fault), by clamped GPU-hours, on top of the clean prior."""
    completed = counted = PRIOR_CLEAN_JOBS
    for job in jobs:
        hours = min(max(job.gpu_seconds / 3600, JOB_HOURS_LEAST), JOB_HOURS_MOST)
        weight = weight_at(job.at, as_of) * hours
        counted += weight
        completed += weight if job.completed else 0.0
    return completed / counted


def consistency_of(runs: Sequence[Mapping[str, float]]) -> float | None:
    """B of one GPU from its comparable runs, oldest first: {metric: value} each, unknown metrics absent.

    Per metric: the median of the last three ÷ the median of the first three, never above 1; the worst metric counts. None
    without a run. A metric that was never measured says nothing.
    """
    if not runs:
        return None
    worst = 1.0
    for metric in {name for run in runs for name in run}:
        values = [run[metric] for run in runs if metric in run]
        baseline = median(values[:BASELINE_RUNS])
        if baseline > 0:
            worst = min(worst, median(values[-RECENT_RUNS:]) / baseline)
    return worst


def score(evidence: Evidence) -> Parts:
    """The formula. GPUs are averaged by their declared time (weighted by age), B over the GPUs that have a benchmark."""
    as_of = evidence.as_of
    declared_total = missing_total = measured_weight = measured_total = 0.0
    longest = 0
    for gpu in evidence.gpus:
        declared = declared_spans(gpu, as_of)
        weight = weight_of(declared, as_of)
        declared_total += weight
        missing_total += missing_weight(gpu, as_of)
        longest = max(longest, int(spans.length(declared).total_seconds()))
        if gpu.consistency is not None:
            measured_weight += weight
            measured_total += weight * gpu.consistency
    completion = completion_of(evidence.jobs, as_of)
    consistency = measured_total / measured_weight if measured_weight > 0 else None
    if declared_total <= 0:
        return Parts(None, completion, consistency, None, longest)
    uptime = max(0.0, 1 - missing_total / declared_total)
    # An unmeasured card neither earns nor loses: without a verdict it is not offered anyway.
    points = 100 * uptime * completion * (1.0 if consistency is None else consistency)
    return Parts(uptime, completion, consistency, points, longest)

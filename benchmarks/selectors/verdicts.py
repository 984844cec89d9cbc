from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from statistics import median
from uuid import UUID

from django.db.models import Exists, OuterRef

from benchmarks.models import Result, Run, Verdict
from benchmarks.verification import BASELINE_RUNS, GPU_METRICS
from core.spans import Span


def verdict_of(gpu_ids: Iterable[UUID]) -> dict[UUID, Verdict]:
    """The verdict in force per GPU; a GPU without one is absent."""
    rows = Verdict.objects.filter(gpu__in=list(gpu_ids)).order_by("gpu", "-decided_at", "-id").distinct("gpu")
    return {row.gpu_id: row for row in rows}


def recent_meets(gpu_id: UUID, limit: int) -> list[bool]:
    """Whether each of the GPU's last judged runs met the minimum, newest first; a run counts once."""
    rows = Verdict.objects.filter(gpu=gpu_id, decided_by="system").order_by("-decided_at", "-id")
    return list(rows.values_list("meets_minimum", flat=True)[:limit])


@dataclass(frozen=True)
class Service:
    """When a GPU was fit to be offered: since its first passing verdict, except for ``delisted`` spans."""

    since: datetime
    delisted: list[Span]


def service_of(gpu_ids: Iterable[UUID], *, until: datetime) -> dict[UUID, Service]:
    """Per GPU that ever passed before ``until``: since when, and when it was delisted in between."""
    history: dict[UUID, list[tuple[datetime, bool]]] = defaultdict(list)
    rows = Verdict.objects.filter(gpu__in=list(gpu_ids), decided_at__lte=until).order_by("decided_at", "id")
    for gpu_id, at, passed in rows.values_list("gpu_id", "decided_at", "passed"):
        history[gpu_id].append((at, passed))
    found = {}
    for gpu_id, verdicts in history.items():
        passing = [number for number, (_at, passed) in enumerate(verdicts) if passed]
        if passing:
            found[gpu_id] = _service(verdicts[passing[0] :], until)
    return found


def _service(verdicts: Sequence[tuple[datetime, bool]], until: datetime) -> Service:
    ends = [at for at, _passed in verdicts[1:]] + [until]
    delisted = [(at, end) for (at, passed), end in zip(verdicts, ends, strict=True) if not passed and at < end]
    return Service(since=verdicts[0][0], delisted=delisted)


def comparable_runs(gpu_ids: Iterable[UUID], *, as_of: datetime) -> dict[UUID, list[dict[str, Decimal]]]:
    """Per GPU the GPU figures of its verified runs, oldest first, as {metric: value} without unknown ones.

    Only runs that compare with the newest: same suite, same driver. A change of either begins a new baseline.
    """
    rows = Run.objects.filter(gpu__in=list(gpu_ids), status=Run.Status.VERIFIED, reported_at__lte=as_of)
    by_gpu: dict[UUID, list[Run]] = defaultdict(list)
    for run in rows.order_by("gpu", "reported_at", "id"):
        by_gpu[run.gpu_id].append(run)
    comparable: dict[UUID, list[UUID]] = {}
    for gpu_id, runs in by_gpu.items():
        kind = (runs[-1].suite_id, runs[-1].driver_version)
        comparable[gpu_id] = [run.pk for run in runs if (run.suite_id, run.driver_version) == kind]
    wanted = [run_id for run_ids in comparable.values() for run_id in run_ids]
    values: dict[UUID, dict[str, Decimal]] = defaultdict(dict)
    results = Result.objects.filter(run__in=wanted, metric__in=GPU_METRICS, value__isnull=False)
    for run_id, metric, value in results.values_list("run_id", "metric", "value"):
        if value is not None:
            values[run_id][metric] = value
    return {gpu_id: [values[run_id] for run_id in run_ids] for gpu_id, run_ids in comparable.items()}


def benchmark_baseline(gpu_id: UUID, *, as_of: datetime) -> dict[str, Decimal]:
    """The card's own baseline: per GPU metric the median of its first three comparable runs."""
    found: dict[str, list[Decimal]] = defaultdict(list)
    for run in comparable_runs([gpu_id], as_of=as_of).get(gpu_id, []):
        for metric, value in run.items():
            found[metric].append(value)
    return {metric: median(values[:BASELINE_RUNS]) for metric, values in found.items()}


def verdicts_in_review() -> int:
    """GPUs whose latest verdict waits for a person."""
    newer = Verdict.objects.filter(gpu=OuterRef("gpu"), decided_at__gt=OuterRef("decided_at"))
    return Verdict.objects.filter(~Exists(newer), in_review=True).count()

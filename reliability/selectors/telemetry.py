"""A machine's GPUs over time, as pages draw it: a value per step, or null where nothing is known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from django.db import connection

from providers.models import Gpu
from reliability.models import TelemetryRollup
from reliability.selectors import live
from reliability.telemetry import METRICS, PEAKS, SPANS, Reading, Rollup, Span, bucket_number, roll_up


@dataclass(frozen=True)
class Series:
    """One GPU over a span. ``at`` are the beginnings of the steps; per metric as many ``means`` (and ``peaks``)."""

    gpu: Gpu
    at: Sequence[datetime]
    means: Mapping[str, Sequence[float | None]]
    peaks: Mapping[str, Sequence[float | None]]


Steps = Mapping[datetime, Rollup]


def telemetry_series(gpus: Sequence[Gpu], *, span: Span, now: datetime) -> list[Series]:
    """The GPUs of one machine over ``span``, in their order. The two-hour span raises redis.RedisError without Valkey."""
    points = span.points(now)
    steps = _raw_steps(gpus, span, now) if span is SPANS["2h"] else _rolled_steps(gpus, span, points)
    return [_series(gpu, points, steps.get(gpu.pk, {})) for gpu in gpus]


def _series(gpu: Gpu, points: Sequence[datetime], steps: Steps) -> Series:
    rows = [steps.get(point) for point in points]
    return Series(
        gpu=gpu,
        at=points,
        means={name: [row.mean[name] if row else None for row in rows] for name in METRICS},
        peaks={name: [row.peak[name] if row else None for row in rows] for name in PEAKS},
    )


def _raw_steps(gpus: Sequence[Gpu], span: Span, now: datetime) -> dict[UUID, Steps]:
    if not gpus:
        return {}
    numbers = range(bucket_number(span.start(now)), bucket_number(now) + 1)
    machine_id, step = gpus[0].machine_id, int(span.step.total_seconds())
    steps: dict[datetime, list[Reading]] = defaultdict(list)
    for readings in live.readings_of((number, machine_id) for number in numbers):
        for reading in readings:
            steps[datetime.fromtimestamp(int(reading.at) // step * step, UTC)].append(reading)
    ids = {gpu.uuid: gpu.pk for gpu in gpus}
    found: dict[UUID, dict[datetime, Rollup]] = defaultdict(dict)
    for at, readings in steps.items():
        for uuid, rolled in roll_up(readings).items():
            if uuid in ids:
                found[ids[uuid]][at] = rolled
    return dict(found)


# A five-minute row weighs as many readings as it is made of; a metric that no row knew stays null.
_MEANS = ", ".join(
    f"sum({name} * samples) / nullif(sum(samples) FILTER (WHERE {name} IS NOT NULL), 0)" for name in METRICS
)
_PEAKS = ", ".join(f"max({name}_peak)" for name in PEAKS)
_ROLLED = f"""
SELECT gpu_id, date_bin(make_interval(secs => %s), starts_at, %s) AS step, sum(samples), {_MEANS}, {_PEAKS}
FROM {TelemetryRollup._meta.db_table}
WHERE gpu_id = ANY (%s::uuid[]) AND starts_at >= %s
GROUP BY gpu_id, step
"""


def _rolled_steps(gpus: Sequence[Gpu], span: Span, points: Sequence[datetime]) -> dict[UUID, Steps]:
    found: dict[UUID, dict[datetime, Rollup]] = defaultdict(dict)
    with connection.cursor() as cursor:
        cursor.execute(_ROLLED, [span.step.total_seconds(), points[0], [str(gpu.pk) for gpu in gpus], points[0]])
        for gpu_id, at, samples, *figures in cursor.fetchall():
            means, peaks = figures[: len(METRICS)], figures[len(METRICS) :]
            found[gpu_id][at] = Rollup(
                samples, dict(zip(METRICS, means, strict=True)), dict(zip(PEAKS, peaks, strict=True))
            )
    return dict(found)

"""What GPUs say of themselves, raw and rolled up. Pure. Unknown is null, a silence is a gap; neither is ever 0.

Raw readings live in Valkey for two hours, cut into pieces of five minutes (reliability.selectors.live); each piece becomes
one row per GPU (models.TelemetryRollup), kept for 90 days.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

METRICS = (
    "utilization_percent",
    "memory_used_bytes",
    "temperature_c",
    "power_w",
    "sm_clock_mhz",
    "memory_clock_mhz",
)
"""In the order in which a raw reading carries them; the names are those of agent_protocol.messages.GpuTelemetry."""
PEAKS = ("memory_used_bytes", "temperature_c", "power_w")
"""Metrics whose highest value is kept beside the mean: what they touch for a moment matters."""

BUCKET = timedelta(minutes=5)
BUCKET_SECONDS = 300
RAW = timedelta(hours=2)
KEPT_SECONDS = int(RAW.total_seconds()) + 2 * BUCKET_SECONDS
"""A piece is kept until its last reading is two hours old, and one more piece for clocks and stragglers."""

Values = Sequence[float | None]
"""One number or null per METRICS."""


class Reading(NamedTuple):
    """One heartbeat's word on a machine's GPUs. ``at`` in Unix seconds, ``values`` by GPU UUID."""

    at: float
    values: dict[str, list[float | None]]


def bucket_number(at: datetime) -> int:
    """Which five minutes since 1970 an instant lies in."""
    return int(at.timestamp()) // BUCKET_SECONDS


def bucket_start(number: int) -> datetime:
    return datetime.fromtimestamp(number * BUCKET_SECONDS, UTC)


def reading_write(at: datetime, telemetry: Iterable[Mapping[str, Any]]) -> str:
    """A heartbeat's telemetry as it is kept: positions instead of names, a third of the size."""
    values = {gpu["uuid"]: [gpu.get(name) for name in METRICS] for gpu in telemetry}
    return json.dumps([round(at.timestamp(), 3), values], separators=(",", ":"))


def reading_read(text: str) -> Reading:
    at, values = json.loads(text)
    return Reading(at, values)


@dataclass(frozen=True)
class Rollup:
    """One GPU's five minutes. ``mean`` by metric and ``peak`` by PEAKS; null where no reading knew it."""

    samples: int
    mean: Mapping[str, float | None]
    peak: Mapping[str, float | None]


def roll_up(readings: Iterable[Reading]) -> dict[str, Rollup]:
    """{GPU UUID: its readings as one row}; a GPU of which nothing was said is absent."""
    seen: dict[str, list[Values]] = {}
    for reading in readings:
        for uuid, values in reading.values.items():
            seen.setdefault(uuid, []).append(values)
    return {uuid: _rolled(rows) for uuid, rows in seen.items()}


def _rolled(rows: Sequence[Values]) -> Rollup:
    mean: dict[str, float | None] = {}
    peak: dict[str, float | None] = {}
    for place, name in enumerate(METRICS):
        known = [value for row in rows if (value := row[place]) is not None]
        mean[name] = sum(known) / len(known) if known else None
        if name in PEAKS:
            peak[name] = max(known, default=None)
    return Rollup(len(rows), mean, peak)


@dataclass(frozen=True)
class Span:
    """A range a page can show: how far back, and how far apart its points are."""

    name: str
    length: timedelta
    step: timedelta

    def start(self, now: datetime) -> datetime:
        """The first point: the beginning of a step, so that the same readings give the same points at every look."""
        step = int(self.step.total_seconds())
        return datetime.fromtimestamp(int((now - self.length).timestamp()) // step * step, UTC)

    def points(self, now: datetime) -> list[datetime]:
        start = self.start(now)
        return [start + number * self.step for number in range(int((now - start) / self.step) + 1)]


SPANS = {
    span.name: span
    for span in (
        Span("2h", RAW, timedelta(minutes=1)),
        Span("24h", timedelta(hours=24), BUCKET),
        Span("7d", timedelta(days=7), timedelta(minutes=30)),
        Span("90d", timedelta(days=90), timedelta(hours=6)),
    )
}
"""A step holds several readings, so that a gap on a chart is a silence and not the pace of heartbeats."""

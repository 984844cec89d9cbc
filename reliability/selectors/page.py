"""The provider's performance page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time

from core.charts import Chart, line_chart
from providers.models import Machine, Provider
from providers.selectors import machines_of
from reliability.models import MachineHealth, PlatformOutage, Score
from reliability.scoring import WINDOW
from reliability.selectors.explained import ScoreEvent, score_events, score_history
from reliability.selectors.health import health_of, score_of, score_parts

DAY_SECONDS = 86_400
NEW_DAYS = 7
"""With less evidence than a week a score says "new"."""


@dataclass(frozen=True)
class MachineRow:
    machine: Machine
    health: MachineHealth | None
    score: Score | None

    @property
    def state(self) -> str:
        return self.health.state if self.health else "never"


@dataclass(frozen=True)
class Performance:
    """score is None before the first computation; is_new: less than a week of evidence."""

    score: Score | None
    evidence_days: int
    is_new: bool
    machines: Sequence[MachineRow]
    events: Sequence[ScoreEvent]
    outages: Sequence[PlatformOutage]
    chart: Chart | None


def performance_of(provider: Provider, *, now: datetime) -> Performance:
    """Score, parts, machines, events with their price, and the platform's own outages (which cost nobody anything)."""
    stored = score_parts(provider)
    machines = list(machines_of(provider))
    ids = [machine.pk for machine in machines]
    health, scores = health_of(ids), score_of(ids)
    days = (stored.evidence_seconds if stored else 0) // DAY_SECONDS
    return Performance(
        score=stored,
        evidence_days=days,
        is_new=days < NEW_DAYS,
        machines=[MachineRow(machine, health.get(machine.pk), scores.get(machine.pk)) for machine in machines],
        # As of the stored score, so that the points add up to what is shown.
        events=score_events(provider, as_of=stored.computed_at) if stored else [],
        outages=list(PlatformOutage.objects.filter(ended_at__gt=now - WINDOW).order_by("-started_at")[:10]),
        chart=_chart(provider, now),
    )


def _chart(provider: Provider, now: datetime) -> Chart | None:
    readings = [
        (datetime.combine(day.day, time(), UTC), None if day.s is None else float(day.s))
        for day in score_history(provider, as_of=now)
    ]
    return line_chart(readings, lowest=0, highest=100) if len(readings) > 1 else None

"""How long silence counts: only while the platform could have heard somebody."""

from __future__ import annotations

from datetime import datetime, timedelta

from core import spans
from reliability.models import PlatformOutage, PlatformPulse
from reliability.states import PULSE_GAP_SECONDS


def listened_between(*, since: datetime, until: datetime) -> timedelta:
    """The time between two instants less our own outages: those recorded, and the one that may not be over yet."""
    recorded = PlatformOutage.objects.filter(ended_at__gt=since, started_at__lt=until)
    away = list(recorded.values_list("started_at", "ended_at"))
    swept_at = PlatformPulse.objects.values_list("swept_at", flat=True).first()
    if swept_at is not None and until - swept_at > timedelta(seconds=PULSE_GAP_SECONDS):
        away.append((swept_at, until))
    return spans.length(spans.subtract([(since, until)], away))

from __future__ import annotations

from datetime import datetime, timedelta

from billing.euros import RATE_MAX_AGE_SECONDS
from billing.models import EurRate


def eur_rate_latest() -> EurRate | None:
    """The rate that was confirmed last, however old."""
    return EurRate.objects.filter(confirmed_at__isnull=False).order_by("-confirmed_at").first()


def eur_rate_usable(now: datetime) -> EurRate | None:
    """The rate that payouts may be planned at now: confirmed, and published less than 24 hours ago; None: there is none."""
    rate = eur_rate_latest()
    if rate is None or rate.published_at <= now - timedelta(seconds=RATE_MAX_AGE_SECONDS):
        return None
    return rate

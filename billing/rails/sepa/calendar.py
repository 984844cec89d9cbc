"""TARGET days: when euros move between banks (holidays' financial calendar of the European Central Bank)."""

from __future__ import annotations

from datetime import date, timedelta
from functools import lru_cache

from holidays import financial_holidays

SATURDAY = 5


@lru_cache(maxsize=16)
def _closed(year: int) -> frozenset[date]:
    return frozenset(financial_holidays("ECB", years=year))


def target_day(day: date) -> date:
    """``day``, or the first one after it that is neither a weekend nor a holiday of the TARGET system."""
    while day.weekday() >= SATURDAY or day in _closed(day.year):
        day += timedelta(days=1)
    return day

"""Payout periods and pay days, in UTC. Pure calendar: no clock, no database.

A weekly period runs from Monday to Monday and is paid on the Monday it ends. A monthly one is a calendar month, paid on the
first business day after it; USDC knows no bank holidays, so a business day is a weekday.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

WEEKLY, MONTHLY = "weekly", "monthly"
SATURDAY = 5


@dataclass(frozen=True, slots=True)
class Period:
    """[start, end) in days, and the day on which it is paid."""

    kind: str
    start: date
    end: date
    pay_day: date

    @property
    def last_day(self) -> date:
        return self.end - timedelta(days=1)

    @property
    def ends_at(self) -> datetime:
        """The first instant that no longer belongs to it."""
        return datetime.combine(self.end, time.min, UTC)


def period_due(kind: str, as_of: date) -> Period:
    """The latest period whose pay day is not after ``as_of``."""
    if kind == WEEKLY:
        end = as_of - timedelta(days=as_of.weekday())
        return Period(kind, end - timedelta(days=7), end, end)
    this_month = as_of.replace(day=1)
    end = this_month if _business_day(this_month) <= as_of else _month_before(this_month)
    return Period(kind, _month_before(end), end, _business_day(end))


def next_pay_day(kind: str, today: date) -> date:
    """The first pay day after ``today``."""
    if kind == WEEKLY:
        return today + timedelta(days=7 - today.weekday())
    candidate = _business_day(today.replace(day=1))
    return candidate if candidate > today else _business_day(_month_after(today.replace(day=1)))


def next_period_start(kind: str, today: date) -> date:
    """When the period after the present one begins: from then on a change of cycle holds."""
    return next_pay_day(WEEKLY, today) if kind == WEEKLY else _month_after(today.replace(day=1))


def _business_day(day: date) -> date:
    return day + timedelta(days=7 - day.weekday()) if day.weekday() >= SATURDAY else day


def _month_before(first: date) -> date:
    return (first - timedelta(days=1)).replace(day=1)


def _month_after(first: date) -> date:
    return (first + timedelta(days=31)).replace(day=1)

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
        return day_starts(self.end)

    @property
    def starts_at(self) -> datetime:
        return day_starts(self.start)


def period_due(kind: str, as_of: date) -> Period:
    """The latest period whose pay day is not after ``as_of``."""
    if kind == WEEKLY:
        end = as_of - timedelta(days=as_of.weekday())
        return Period(kind, end - timedelta(days=7), end, end)
    this_month = as_of.replace(day=1)
    end = this_month if _business_day(this_month) <= as_of else _month_before(this_month)
    return Period(kind, _month_before(end), end, _business_day(end))


def period_current(kind: str, today: date) -> Period:
    """The period that is running on ``today``."""
    if kind == WEEKLY:
        start = today - timedelta(days=today.weekday())
        return Period(kind, start, start + timedelta(days=7), start + timedelta(days=7))
    start, end = today.replace(day=1), _month_after(today.replace(day=1))
    return Period(kind, start, end, _business_day(end))


def month_closed(today: date) -> tuple[date, date]:
    """[first day, first day after it) of the last calendar month that is over."""
    end = today.replace(day=1)
    return _month_before(end), end


def months_between(start: date, end: date) -> list[tuple[date, date]]:
    """The calendar months from the one that holds ``start`` up to ``end`` (the first of a month), oldest first."""
    found, first = [], start.replace(day=1)
    while first < end:
        found.append((first, _month_after(first)))
        first = _month_after(first)
    return found


def day_starts(day: date) -> datetime:
    """The first instant of a UTC day."""
    return datetime.combine(day, time.min, UTC)


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

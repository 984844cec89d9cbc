"""Weekly availability, pure: is it open, when does that change, until when does it stay open.

A window is wall-clock time in its zone: it is open whenever the clock on the wall there reads a minute inside it. So an
hour that the spring change skips does not exist (22:00–06:00 lasts 7 hours that night, a window inside the gap does not
open), and an hour that the autumn change repeats counts twice (9 hours; a window inside it opens twice).

``end`` ≤ ``start`` runs over midnight into the next day; "24:00" (or "00:00") as end is that midnight. Start is in, end is out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from core.errors import Invalid

DAY_MINUTES = 24 * 60
WEEK_MINUTES = 7 * DAY_MINUTES
MAX_WINDOWS = 28
"""Four a day: enough for anybody, and it bounds the work of every sweep."""
HORIZON_DAYS = 16
"""Within two weeks and a day every weekly pattern changes, even one whose only window the spring change skips once."""
NEVER = datetime.max.replace(tzinfo=UTC)

_CLOCK = re.compile(r"([01]\d|2[0-3]):([0-5]\d)|24:00")


@dataclass(frozen=True, order=True)
class Window:
    """On each of ``days`` (0 is Monday) from minute ``start`` to minute ``end`` of the day; end ≤ start: next day."""

    days: tuple[int, ...]
    start: int
    end: int

    def spans(self) -> Iterator[tuple[int, int]]:
        """Half-open minute spans of the week, cut at its end (Monday 00:00 is 0)."""
        length = self.end - self.start if self.end > self.start else self.end + DAY_MINUTES - self.start
        for day in self.days:
            first = day * DAY_MINUTES + self.start
            last = first + length
            yield first, min(last, WEEK_MINUTES)
            if last > WEEK_MINUTES:
                yield 0, last - WEEK_MINUTES


@dataclass(frozen=True)
class WeeklySchedule:
    """``always_on``, or the windows in the IANA ``zone``. Without windows it is never open."""

    zone: str
    always_on: bool = False
    windows: tuple[Window, ...] = ()


ALWAYS_ON = WeeklySchedule(zone="UTC", always_on=True)


@lru_cache(maxsize=1)
def zones() -> frozenset[str]:
    """The IANA zones on offer."""
    return frozenset(name for name in available_timezones() if "/" in name or name == "UTC")


@lru_cache(maxsize=4096)
def _week(windows: tuple[Window, ...]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted(span for window in windows for span in window.spans()))


def is_open(schedule: WeeklySchedule, at: datetime) -> bool:
    """Whether the wall clock of the schedule's zone reads a minute inside a window at the instant ``at``."""
    if schedule.always_on:
        return True
    local = at.astimezone(ZoneInfo(schedule.zone))
    minute = local.weekday() * DAY_MINUTES + local.hour * 60 + local.minute
    return any(first <= minute < last for first, last in _week(schedule.windows))


def next_change(schedule: WeeklySchedule, at: datetime) -> datetime | None:
    """The first instant after ``at`` (UTC) at which it opens or closes; null when it never does."""
    if schedule.always_on or not schedule.windows:
        return None
    zone, before = ZoneInfo(schedule.zone), is_open(schedule, at)
    edges = {edge % DAY_MINUTES for window in schedule.windows for edge in (window.start, window.end)}
    start = at.astimezone(zone).date() - timedelta(days=1)
    for number in range(HORIZON_DAYS + 2):
        day = start + timedelta(days=number)
        instants = {
            datetime.combine(day, time(edge // 60, edge % 60, fold=fold), zone).astimezone(UTC)
            for edge in edges
            for fold in (0, 1)
        }
        instants |= set(_clock_changes(zone, day))
        for instant in sorted(instants):
            if instant > at and is_open(schedule, instant) != before:
                return instant
    return None


def open_until(schedule: WeeklySchedule, at: datetime) -> datetime:
    """Until when it stays open from ``at`` on: ``at`` itself when it is closed, ``NEVER`` when it never closes."""
    if not is_open(schedule, at):
        return at
    return next_change(schedule, at) or NEVER


def intervals(schedule: WeeklySchedule, since: datetime, until: datetime) -> Iterator[tuple[datetime, datetime]]:
    """The open intervals inside [since, until), in order."""
    at = since
    while at < until:
        change = min(next_change(schedule, at) or until, until)
        if is_open(schedule, at):
            yield at, change
        at = change


def narrows(old: WeeklySchedule, new: WeeklySchedule, at: datetime) -> bool:
    """Whether ``new`` is closed somewhere in the next two weeks where ``old`` was open."""
    until = at + timedelta(days=14)
    return any(open_until(new, first) < last for first, last in intervals(old, at, until))


def _clock_changes(zone: ZoneInfo, day: date) -> Iterator[datetime]:
    """Instants within the local ``day`` at which the zone's offset jumps, to the minute."""
    low = datetime.combine(day, time(), zone).astimezone(UTC)
    high = datetime.combine(day + timedelta(days=1), time(), zone).astimezone(UTC)
    if low.astimezone(zone).utcoffset() == high.astimezone(zone).utcoffset():
        return
    offset = low.astimezone(zone).utcoffset()
    while high - low > timedelta(minutes=1):
        middle = low + timedelta(minutes=int((high - low).total_seconds() // 120))
        if middle.astimezone(zone).utcoffset() == offset:
            low = middle
        else:
            high = middle
    yield high


def _minute(value: object, name: str, *, end: bool = False) -> int:
    if not isinstance(value, str) or not _CLOCK.fullmatch(value) or (value == "24:00" and not end):
        raise Invalid.field(name, found=value, allowed="a time such as 08:30" + (" up to 24:00" if end else ""))
    minutes = int(value[:2]) * 60 + int(value[3:])
    return DAY_MINUTES if end and minutes == 0 else minutes


def windows_parse(value: Any, *, field: str = "windows") -> tuple[Window, ...]:
    """Windows from JSON ``[{"days": [0..6], "start": "HH:MM", "end": "HH:MM"}]``. Raises Invalid naming the window."""
    if not isinstance(value, list | tuple) or len(value) > MAX_WINDOWS:
        raise Invalid.field(field, found=value, allowed=f"a list of at most {MAX_WINDOWS} windows")
    windows = tuple(_window(entry, f"{field}.{number}") for number, entry in enumerate(value))
    _refuse_overlap(windows, field)
    return windows


def _window(entry: Any, name: str) -> Window:
    if not isinstance(entry, Mapping) or set(entry) != {"days", "start", "end"}:
        raise Invalid.field(name, found=entry, allowed="days, start and end")
    days = entry["days"]
    whole = isinstance(days, Sequence) and all(type(day) is int and 0 <= day <= 6 for day in days)
    if not whole or not days or len(set(days)) != len(days):
        raise Invalid.field(f"{name}.days", found=days, allowed="each day once, 0 (Monday) to 6 (Sunday)")
    window = Window(
        tuple(sorted(days)), _minute(entry["start"], f"{name}.start"), _minute(entry["end"], f"{name}.end", end=True)
    )
    if window.start == window.end:
        raise Invalid.field(
            f"{name}.end", found=entry["end"], allowed="another time than the start (24 h: 00:00–24:00)"
        )
    return window


def _refuse_overlap(windows: Iterable[Window], field: str) -> None:
    spans = sorted((first, last, number) for number, window in enumerate(windows) for first, last in window.spans())
    for (_, last, one), (first, _, other) in pairwise(spans):
        if first < last:
            a, b = sorted((one, other))
            raise Invalid.field(
                field, found=f"windows {a + 1} and {b + 1} overlap", allowed="windows that do not overlap"
            )


def windows_json(windows: Iterable[Window]) -> list[dict[str, Any]]:
    """The JSON that ``windows_parse`` reads back."""

    def clock(minutes: int) -> str:
        return f"{minutes // 60:02}:{minutes % 60:02}"

    return [{"days": list(each.days), "start": clock(each.start), "end": clock(each.end)} for each in windows]

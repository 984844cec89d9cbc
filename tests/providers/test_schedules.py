"""Weekly availability against a wall clock read minute by minute, and the days on which that clock jumps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accounts.models import User
from core import clock
from core.errors import Invalid
from core.models import Delivery
from providers import services
from providers.models import Schedule
from providers.schedules import (
    ALWAYS_ON,
    DAY_MINUTES,
    NEVER,
    WeeklySchedule,
    Window,
    intervals,
    is_open,
    narrows,
    next_change,
    open_until,
    windows_json,
    windows_parse,
)
from providers.selectors import schedule_of
from tests.factories.providers import machine_make, provider_make

MINUTE = timedelta(minutes=1)
EVERY_DAY = tuple(range(7))


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def weekly(zone: str, *windows: tuple[str, str], days: tuple[int, ...] = EVERY_DAY) -> WeeklySchedule:
    parsed = windows_parse([{"days": list(days), "start": start, "end": end} for start, end in windows])
    return WeeklySchedule(zone=zone, windows=parsed)


def hours(schedule: WeeklySchedule, since: str, until: str) -> list[tuple[str, str]]:
    """Open intervals in UTC as texts."""
    found = intervals(schedule, utc(since), utc(until))
    return [(first.strftime("%d %H:%M"), last.strftime("%d %H:%M")) for first, last in found]


@pytest.mark.parametrize(
    ("name", "schedule", "since", "until", "expected"),
    [
        ("a plain day", weekly("UTC", ("08:00", "12:30")), "2026-03-02", "2026-03-03", [("02 08:00", "02 12:30")]),
        (
            "several windows a day",
            weekly("UTC", ("08:00", "09:00"), ("20:00", "24:00")),
            "2026-03-02",
            "2026-03-03T06:00",
            [("02 08:00", "02 09:00"), ("02 20:00", "03 00:00")],
        ),
        (
            "over midnight, Sunday into Monday",
            weekly("UTC", ("22:00", "06:00"), days=(6,)),
            "2026-03-01",
            "2026-03-04",
            [("01 22:00", "02 06:00")],
        ),
        (
            "afternoon in New York on the spring change day",
            weekly("America/New_York", ("13:00", "18:00")),
            "2026-03-08T12:00",
            "2026-03-09T12:00",
            [("08 17:00", "08 22:00")],
        ),
        (
            "a night of 7 hours in spring",
            weekly("America/New_York", ("22:00", "06:00"), days=(5,)),
            "2026-03-07",
            "2026-03-10",
            [("08 03:00", "08 10:00")],
        ),
        (
            "a night of 9 hours in autumn",
            weekly("America/New_York", ("22:00", "06:00"), days=(5,)),
            "2026-10-31",
            "2026-11-03",
            [("01 02:00", "01 11:00")],
        ),
        (
            "a window that starts in the skipped hour opens when the clock has jumped",
            weekly("America/New_York", ("02:30", "04:00")),
            "2026-03-08T05:30",
            "2026-03-08T12:00",
            [("08 07:00", "08 08:00")],
        ),
        (
            "a window inside the skipped hour does not open",
            weekly("America/New_York", ("02:10", "02:50")),
            "2026-03-08T05:00",
            "2026-03-08T12:00",
            [],
        ),
        (
            "a window inside the repeated hour opens twice",
            weekly("America/New_York", ("01:15", "01:45")),
            "2026-11-01T04:00",
            "2026-11-01T09:00",
            [("01 05:15", "01 05:45"), ("01 06:15", "01 06:45")],
        ),
        (
            "UTC+5:45",
            weekly("Asia/Kathmandu", ("00:00", "01:00")),
            "2026-03-02T12:00",
            "2026-03-03T12:00",
            [("02 18:15", "02 19:15")],
        ),
        (
            "a change of half an hour",
            weekly("Australia/Lord_Howe", ("01:00", "03:00")),
            "2026-10-03T12:00",
            "2026-10-03T20:00",
            [("03 14:30", "03 16:00")],
        ),
        (
            "the whole week",
            weekly("Europe/Berlin", ("00:00", "24:00")),
            "2026-03-28",
            "2026-03-30",
            [("28 00:00", "30 00:00")],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and " " in value else "",
)
def test_open_hours(
    name: str, schedule: WeeklySchedule, since: str, until: str, expected: list[tuple[str, str]]
) -> None:
    assert hours(schedule, since, until) == expected


def test_always_on_never_changes() -> None:
    now = utc("2026-03-08T07:00")
    assert is_open(ALWAYS_ON, now) and next_change(ALWAYS_ON, now) is None and open_until(ALWAYS_ON, now) == NEVER


def test_no_window_is_never_open() -> None:
    empty, now = WeeklySchedule(zone="UTC"), utc("2026-03-08")
    assert not is_open(empty, now) and next_change(empty, now) is None and open_until(empty, now) == now


def test_a_window_that_spring_skips_opens_a_week_later() -> None:
    sunday = weekly("America/New_York", ("02:10", "02:50"), days=(6,))
    assert next_change(sunday, utc("2026-03-02T00:00")) == utc("2026-03-15T06:10")


ZONES = ["UTC", "America/New_York", "Europe/Berlin", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Apia"]
# Around the changes of clocks in 2026 (New York, Berlin, Lord Howe), where mistakes live.
STARTS = [
    "2026-03-07T20:00",
    "2026-03-28T20:00",
    "2026-10-03T10:00",
    "2026-10-31T20:00",
    "2026-04-04T10:00",
    "2026-06-01T00:00",
]


@st.composite
def schedules(draw: st.DrawFn) -> WeeklySchedule:
    windows: list[Window] = []
    for _number in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, DAY_MINUTES - 1))
        end = draw(st.integers(1, DAY_MINUTES).filter(lambda minute, start=start: minute != start))
        days = tuple(sorted(draw(st.sets(st.integers(0, 6), min_size=1))))
        windows.append(Window(days, start, end))
    return WeeklySchedule(zone=draw(st.sampled_from(ZONES)), windows=tuple(windows))


def wall_clock_says_open(schedule: WeeklySchedule, at: datetime) -> bool:
    """The oracle: read the clock on the wall and look whether any window of today or yesterday covers it."""
    local = at.astimezone(ZoneInfo(schedule.zone))
    minute, today = local.hour * 60 + local.minute, local.weekday()
    for window in schedule.windows:
        if window.end > window.start:
            if today in window.days and window.start <= minute < window.end:
                return True
        elif (today in window.days and minute >= window.start) or (
            (today - 1) % 7 in window.days and minute < window.end
        ):
            return True
    return False


@settings(max_examples=150, deadline=None)
@given(schedule=schedules(), start=st.sampled_from(STARTS), offset=st.integers(0, 600))
def test_the_algebra_agrees_with_a_wall_clock_minute_by_minute(
    schedule: WeeklySchedule, start: str, offset: int
) -> None:
    at = utc(start) + offset * MINUTE
    until = at + timedelta(hours=30)
    flips, before, minute = [], wall_clock_says_open(schedule, at), at + MINUTE
    assert is_open(schedule, at) == before
    while minute < until:
        now = wall_clock_says_open(schedule, minute)
        if now != before:
            flips.append(minute)
        before, minute = now, minute + MINUTE
    found, change = [], next_change(schedule, at)
    while change is not None and change < until:
        found.append(change)
        change = next_change(schedule, change)
    assert found == flips


@settings(max_examples=150, deadline=None)
@given(schedule=schedules())
def test_windows_survive_json_unless_they_overlap(schedule: WeeklySchedule) -> None:
    spans = sorted(span for window in schedule.windows for span in window.spans())
    if any(first < last for (_, last), (first, _) in pairwise(spans)):
        with pytest.raises(Invalid, match="overlap"):
            windows_parse(windows_json(schedule.windows))
    else:
        assert windows_parse(windows_json(schedule.windows)) == schedule.windows


@pytest.mark.parametrize(
    ("field", "windows"),
    [
        ("windows", "mon-fri"),
        ("windows", [{"days": [0], "start": "08:00", "end": "09:00"}] * 29),
        ("windows.0", [{"days": [0], "start": "08:00"}]),
        ("windows.0", ["mon"]),
        ("windows.0.days", [{"days": [], "start": "08:00", "end": "09:00"}]),
        ("windows.0.days", [{"days": [True], "start": "08:00", "end": "09:00"}]),
        ("windows.0.days", [{"days": [0, 0], "start": "08:00", "end": "09:00"}]),
        ("windows.0.start", [{"days": [0], "start": "24:00", "end": "09:00"}]),
        ("windows.0.start", [{"days": [0], "start": 8, "end": "09:00"}]),
        ("windows.0.end", [{"days": [0], "start": "08:00", "end": "9:00"}]),
        ("windows.0.end", [{"days": [0], "start": "08:00", "end": "08:00"}]),
        (
            "windows",
            [{"days": [6], "start": "22:00", "end": "06:00"}, {"days": [0], "start": "05:00", "end": "07:00"}],
        ),
    ],
)
def test_bad_windows_are_named(field: str, windows: object) -> None:
    with pytest.raises(Invalid) as refused:
        windows_parse(windows)
    assert list(refused.value.fields) == [field]


def test_narrowing_is_recognised_across_zones() -> None:
    berlin, now = weekly("Europe/Berlin", ("08:00", "20:00")), utc("2026-03-02")
    assert narrows(berlin, weekly("Europe/Berlin", ("09:00", "20:00")), now)
    assert not narrows(berlin, weekly("UTC", ("06:00", "20:00")), now)
    assert narrows(ALWAYS_ON, berlin, now) and not narrows(berlin, ALWAYS_ON, now)


HOURS = [{"days": [0, 1, 2, 3, 4], "start": "08:00", "end": "20:00"}]


@pytest.mark.django_db
def test_an_edit_opens_a_new_version_and_leaves_the_past(ada: User, olga: User) -> None:
    now = utc("2026-03-02T12:00")  # Monday noon
    provider = provider_make(ada, reviewer=olga, now=now - timedelta(days=30))
    machine = machine_make(provider, now=now - timedelta(days=20))
    row = services.schedule_set(provider=provider, zone="UTC", always_on=False, windows=HOURS, actor=ada, now=now)
    assert (row.version, row.next_change_at) == (2, utc("2026-03-02T20:00"))
    assert row.scored_from == now + timedelta(hours=24)  # it narrows
    assert schedule_of(machine, now - MINUTE) == ALWAYS_ON and not is_open(schedule_of(machine, now), utc("2026-03-07"))
    wider = services.schedule_set(
        provider=provider, zone="UTC", always_on=True, windows=[], actor=ada, now=now + MINUTE
    )
    assert wider.scored_from == now + MINUTE
    assert list(Schedule.objects.filter(next_change_at__isnull=False)) == []


@pytest.mark.django_db
def test_the_same_schedule_again_makes_no_version(ada: User, olga: User) -> None:
    provider = provider_make(ada, reviewer=olga)
    services.schedule_set(provider=provider, zone="UTC", always_on=True, windows=[], actor=ada, now=clock.now())
    assert Schedule.objects.count() == 1


@pytest.mark.django_db
def test_a_machines_own_schedule_wins(ada: User, olga: User) -> None:
    provider, now = provider_make(ada, reviewer=olga), clock.now()
    machine, other = machine_make(provider), machine_make(provider)
    services.schedule_set(
        provider=provider, machine=machine, zone="UTC", always_on=False, windows=HOURS, actor=ada, now=now
    )
    assert not schedule_of(machine, now).always_on and schedule_of(other, now).always_on


@pytest.mark.django_db
@pytest.mark.parametrize(("field", "zone", "windows"), [("zone", "Mars/Base", HOURS), ("windows", "UTC", [])])
def test_a_bad_schedule_is_refused(ada: User, olga: User, field: str, zone: str, windows: list[object]) -> None:
    provider = provider_make(ada, reviewer=olga)
    with pytest.raises(Invalid) as refused:
        services.schedule_set(
            provider=provider, zone=zone, always_on=False, windows=windows, actor=ada, now=clock.now()
        )
    assert list(refused.value.fields) == [field] and Schedule.objects.count() == 1


@pytest.mark.django_db
def test_the_sweep_touches_only_what_changes_now(
    ada: User, ravi: User, olga: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr("core.news.publish", lambda topic, subject, now: told.append(f"{topic} {subject}"))
    now = utc("2026-03-02T12:00")
    provider, other = provider_make(ada, reviewer=olga, now=now), provider_make(ravi, reviewer=olga, now=now)
    services.schedule_set(provider=provider, zone="UTC", always_on=False, windows=HOURS, actor=ada, now=now)
    early = [{"days": [0], "start": "08:00", "end": "23:00"}]
    services.schedule_set(provider=other, zone="UTC", always_on=False, windows=early, actor=ravi, now=now)
    told.clear()
    evening = utc("2026-03-02T20:00")
    assert services.schedules_sweep(now=evening - MINUTE) == 0 and told == []
    assert services.schedules_sweep(now=evening) == 1
    assert services.schedules_sweep(now=evening) == 0  # twice is once
    assert told == [f"schedule.version {provider.pk}"]
    assert Schedule.objects.get(provider=provider, version=2).next_change_at == utc("2026-03-03T08:00")
    assert not Delivery.objects.filter(topic="schedule.version", published_at=evening).exists()

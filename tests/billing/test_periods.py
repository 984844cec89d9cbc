from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.periods import next_pay_day, next_period_start, period_due

DAYS = st.dates(date(2024, 1, 1), date(2032, 12, 31))


@pytest.mark.parametrize(
    ("kind", "as_of", "start", "end", "pay_day"),
    [
        ("weekly", "2026-12-07", "2026-11-30", "2026-12-07", "2026-12-07"),  # a Monday
        ("weekly", "2026-12-13", "2026-11-30", "2026-12-07", "2026-12-07"),  # the Sunday after
        ("weekly", "2027-01-04", "2026-12-28", "2027-01-04", "2027-01-04"),  # over the year's end
        ("monthly", "2026-12-01", "2026-11-01", "2026-12-01", "2026-12-01"),
        ("monthly", "2027-05-02", "2027-03-01", "2027-04-01", "2027-04-01"),  # May 1st 2027 is a Saturday
        ("monthly", "2027-05-03", "2027-04-01", "2027-05-01", "2027-05-03"),
        ("monthly", "2028-02-29", "2028-01-01", "2028-02-01", "2028-02-01"),
    ],
)
def test_what_is_due_on_a_day(kind: str, as_of: str, start: str, end: str, pay_day: str) -> None:
    found = period_due(kind, date.fromisoformat(as_of))
    assert [found.start.isoformat(), found.end.isoformat(), found.pay_day.isoformat()] == [start, end, pay_day]


@given(DAYS, st.sampled_from(["weekly", "monthly"]))
def test_periods_follow_each_other_without_gap_and_pay_days_are_weekdays(day: date, kind: str) -> None:
    found = period_due(kind, day)
    assert found.start < found.end <= found.pay_day <= day
    assert found.pay_day.weekday() < 5
    following = next_pay_day(kind, day)
    assert following > day
    assert period_due(kind, following).start == found.end
    assert period_due(kind, following - timedelta(days=1)) == found
    assert next_period_start(kind, day) > day

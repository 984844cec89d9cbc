"""The mail that says how long the money lasts: once per fall, in time to act. 3.6 USDC an hour is 1,000 micro a second."""

from __future__ import annotations

from datetime import datetime

import pytest
from django.db import OperationalError

from accounts.models import Notification, User
from accounts.selectors import party_of
from marketplace.models import LowBalance
from marketplace.services import customers_watch, protection
from tests.factories.billing import USDC, funded
from tests.factories.cast import person
from tests.factories.concurrency import together
from tests.factories.marketplace import Story, story
from tests.marketplace.conftest import At

HOUR = 3600
FOUR_HOURS_MICRO = 14_400_000


def told_of(who: User) -> list[Notification]:
    return list(Notification.objects.filter(user=who, kind="low_balance").order_by("id"))


def heard(told: Story, at: At, second: int) -> int:
    told.agent.observe(told.attempt, "running", at=at(second), elapsed=second)
    return customers_watch(now=at(second))


@pytest.mark.django_db
@pytest.mark.usefixtures("books")
class TestFalls:
    def test_it_is_told_when_under_four_hours_are_left_and_says_what_happens_then(self, ravi: User, at: At) -> None:
        told = story(ravi, now=at(0), balance_micro=FOUR_HOURS_MICRO + 60_000, time_limit_s=24 * HOUR)
        assert [heard(told, at, second) for second in (0, 60)] == [0, 0]  # exactly four hours are enough
        assert heard(told, at, 120) == 1
        (mail,) = told_of(ravi)
        assert mail.subject == "Your balance lasts about 3 h 59 min"
        assert "costs 3.60 USDC an hour, and 14.34 USDC are left" in mail.body
        assert "stopped about 15 minutes before its money ends" in mail.body
        assert mail.url == "/billing/#deposit"

    def test_once_per_fall(self, ravi: User, at: At) -> None:
        told = story(ravi, now=at(0), balance_micro=10 * USDC, time_limit_s=24 * HOUR)
        assert [heard(told, at, second) for second in (0, 60, 120)] == [1, 0, 0]
        funded(ravi, 5 * USDC, now=at(130))  # 14.87: above the mark, not clearly
        assert heard(told, at, 180) == 0
        assert LowBalance.objects.exists()
        funded(ravi, 4 * USDC, now=at(190))
        assert heard(told, at, 240) == 0
        assert not LowBalance.objects.exists()
        # 19 USDC at the start: 4.6 of them are gone after 4,601 seconds.
        assert [heard(told, at, second) for second in (4_600, 4_601)] == [0, 1]
        assert len(told_of(ravi)) == 2

    def test_a_job_whose_time_limit_the_money_covers_is_no_news(self, ravi: User, at: At) -> None:
        told = story(ravi, now=at(0), balance_micro=2 * 3_600_000, time_limit_s=2 * HOUR)
        assert [heard(told, at, second) for second in (0, HOUR, 2 * HOUR - 1)] == [0, 0, 0]

    def test_what_several_jobs_cost_together_counts(self, ravi: User, at: At) -> None:
        first, second = (story(ravi, now=at(0), balance_micro=10 * USDC, time_limit_s=24 * HOUR) for _each in range(2))
        assert heard(first, at, 0) == 0
        assert heard(second, at, 1) == 1
        assert "Your 2 running jobs cost 7.20 USDC an hour together" in told_of(ravi)[0].body

    def test_without_a_running_job_nothing_is_told_and_nothing_forgotten(self, ravi: User, at: At) -> None:
        told = story(ravi, now=at(0), balance_micro=5 * USDC, time_limit_s=24 * HOUR)
        assert customers_watch(now=at(5)) == 0  # not started: nothing is charged
        assert heard(told, at, 10) == 1
        told.agent.end(told.attempt, at=at(60), elapsed=50)
        assert customers_watch(now=at(61)) == 0
        assert LowBalance.objects.filter(customer=party_of(ravi)).exists()

    def test_one_customers_trouble_keeps_nobody_else_from_it(
        self, ravi: User, eve: User, at: At, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        stories = [story(who, now=at(0), balance_micro=5 * USDC, time_limit_s=24 * HOUR) for who in (ravi, eve)]
        first = min(party_of(who).pk for who in (ravi, eve))
        watch = protection._balance_watch

        def refuse(running: protection.Running, balance_micro: int, now: datetime) -> bool:
            if running.customer_id == first:
                raise OperationalError("canceling statement due to lock timeout")
            return watch(running, balance_micro, now)

        for told in stories:
            told.agent.observe(told.attempt, "running", at=at(0), elapsed=0)
        monkeypatch.setattr(protection, "_balance_watch", refuse)
        assert customers_watch(now=at(1)) == 1
        monkeypatch.undo()
        assert customers_watch(now=at(2)) == 1
        assert [len(told_of(who)) for who in (ravi, eve)] == [1, 1]


def test_watchers_beside_each_other_tell_once(committed_db: str, at: At) -> None:
    ravi = person("Ravi")
    told = story(ravi, now=at(0), balance_micro=5 * USDC, time_limit_s=24 * HOUR)
    told.agent.observe(told.attempt, "running", at=at(0), elapsed=0)
    assert sorted(together(4, lambda number: customers_watch(now=at(1 + number / 10)))) == [0, 0, 0, 1]
    assert len(told_of(ravi)) == 1

"""Spend limits: what a customer allows, what waits and what is stopped for it, and who is told.

3.6 USDC an hour is 0.001 USDC (1,000 micro) a second.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.db import DatabaseError, connection, transaction
from django.test import Client

from accounts.models import Notification, User
from accounts.selectors import party_of
from billing.models import SpendLimit, SpendNotice
from billing.selectors import balance_of, spending_of, spent_micro
from billing.services import SpendLimitReached, spend_limits_set, spend_notice_take
from core.errors import Denied, Invalid
from marketplace.models import Job, Rental
from marketplace.models.rental import HOLD_PREFIX
from marketplace.services import (
    Placed,
    customers_watch,
    holds_renew,
    job_place,
    queue_sweep,
    rental_settle,
    usage_settle,
    windows_close,
)
from tests.factories.billing import USDC, earned, funded
from tests.factories.cast import PASSWORD
from tests.factories.marketplace import Story, job_new, listing_new, story
from tests.marketplace.conftest import At

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("books")]
SignedIn = Callable[[User], Client]
HOUR = 3600


def limited(who: User, now: datetime, **limits: int | None) -> None:
    spend_limits_set(party=party_of(who), limits=limits, actor=who, reauthenticated=True, now=now)


def runs(told: Story, at: At, *, until: int, begin: int = 0) -> None:
    """The platform's minutes and quarters while a container runs."""
    for second in range(begin, until + 1, 60):
        told.agent.observe(told.attempt, "running", at=at(second), elapsed=second)
        windows_close(now=at(second))
        if second % 900 == 0:
            usage_settle(now=at(second))
        customers_watch(now=at(second))


def mails(who: User, kind: str) -> list[Notification]:
    return list(Notification.objects.filter(user=who, kind=kind).order_by("id"))


class TestPlacing:
    def test_a_job_that_could_exceed_the_limit_is_refused_and_says_which(self, ravi: User, at: At) -> None:
        listing_new(rate_micro=3_600_000)
        funded(ravi, 100 * USDC, now=at(0))
        limited(ravi, at(0), day=3_599_999)
        with pytest.raises(SpendLimitReached) as refused:
            job_new(ravi, now=at(1), max_rate_micro=3_600_000)
        assert refused.value.code == "spend_limit"
        assert "24 hours is 3.599999 USDC: 0.00 are spent, and with this job 3.60" in refused.value.message
        assert not Job.objects.exists()
        limited(ravi, at(2), day=3_600_000)
        job = job_new(ravi, now=at(3), max_rate_micro=3_600_000)
        assert job_place(job_id=job.pk, now=at(3)) is Placed.PLACED

    def test_a_queued_job_waits_for_room_and_is_placed_when_there_is_some(self, ravi: User, at: At) -> None:
        first = story(ravi, now=at(0), time_limit_s=HOUR)
        listing_new(rate_micro=3_600_000)
        waiting = job_new(ravi, now=at(1), max_rate_micro=3_600_000)
        limited(ravi, at(2), month=4 * USDC)
        held = balance_of(party_of(ravi)).held_micro
        assert job_place(job_id=waiting.pk, now=at(3)) is Placed.LIMIT
        waiting.refresh_from_db()
        assert (waiting.status, waiting.waiting) == ("queued", "limit")
        assert balance_of(party_of(ravi)).held_micro == held
        # The first job ends early and gives most of its hour back: 0.4 spent and 3.6 wanted are exactly the limit.
        first.agent.observe(first.attempt, "running", at=at(10), elapsed=0)
        first.agent.end(first.attempt, at=at(410), elapsed=400)
        assert rental_settle(rental_id=Rental.objects.get(attempt=first.attempt).pk, now=at(411))
        assert spent_micro(party_of(ravi).pk, at(0)) == 400_000
        assert job_place(job_id=waiting.pk, now=at(412)) is Placed.PLACED

    def test_a_job_that_waited_a_day_for_the_limit_ends_with_that_reason(self, ravi: User, at: At) -> None:
        listing_new(rate_micro=3_600_000)
        funded(ravi, 100 * USDC, now=at(0))
        job = job_new(ravi, now=at(0), max_rate_micro=3_600_000)
        limited(ravi, at(1), day=USDC)
        assert job_place(job_id=job.pk, now=at(2)) is Placed.LIMIT
        assert balance_of(party_of(ravi)).held_micro == 0
        assert queue_sweep(now=at(24 * HOUR + 1)) == 1
        job.refresh_from_db()
        assert (job.status, job.reason) == ("failed", "no_limit_room")
        assert "spend limit left no room" in mails(ravi, "job_ended")[0].body

    def test_what_was_spent_a_day_ago_counts_no_more_and_what_came_back_makes_no_room(
        self, ravi: User, ada: User, at: At
    ) -> None:
        party = funded(ravi, 100 * USDC, now=at(0))
        limited(ravi, at(0), day=10 * USDC)
        earned(ada, ravi, 4 * USDC, at=at(0))
        earned(ada, ravi, 5 * USDC, at=at(20 * HOUR))

        def room(second: float) -> int | None:
            return spending_of(party, at(second), holds=HOLD_PREFIX)[0].room_micro

        assert room(23 * HOUR) == 1 * USDC
        assert room(24 * HOUR) == 1 * USDC
        assert room(24 * HOUR + 1) == 5 * USDC
        assert room(44 * HOUR + 1) == 10 * USDC

    def test_the_month_begins_at_midnight_utc(self, ravi: User, ada: User) -> None:
        last, first = datetime(2026, 10, 31, 23, 30, tzinfo=UTC), datetime(2026, 11, 1, 0, 30, tzinfo=UTC)
        party = funded(ravi, 100 * USDC, now=last)
        earned(ada, ravi, 4 * USDC, at=last)
        earned(ada, ravi, 5 * USDC, at=first)
        found = {str(each.period): each.spent_micro for each in spending_of(party, first, holds=HOLD_PREFIX)}
        assert found == {"day": 9 * USDC, "month": 5 * USDC}


class TestRunning:
    def test_a_job_is_stopped_while_its_hold_still_covers_the_stop_and_never_costs_more_than_the_limit(
        self, ravi: User, at: At
    ) -> None:
        """3.6 USDC an hour, a limit of 5: after 45 minutes the hold cannot be filled up again (2.7 + 3.6 > 5)."""
        told = story(ravi, now=at(0), time_limit_s=10 * HOUR)
        limited(ravi, at(0), day=5 * USDC)
        runs(told, at, until=46 * 60)
        told.reload()
        assert (told.attempt.status, told.attempt.stop_reason) == ("stopping", "spend_limit")
        assert told.agent.plan()[told.attempt.pk]["stop_reason"] == "spend_limit"
        assert told.attempt.stop_requested_at == at(46 * 60)
        told.agent.end(told.attempt, at=at(46 * 60 + 30), reason="spend_limit", exit_code=143, elapsed=46 * 60 + 30)
        rental = Rental.objects.get(attempt=told.attempt)
        assert rental_settle(rental_id=rental.pk, now=at(46 * 60 + 31))
        rental.refresh_from_db()
        assert rental.charged_micro == 46 * 60 * 1_000 <= 5 * USDC
        assert told.reload().job.reason == "spend_limit"
        assert len(mails(ravi, "spend_limit_reached")) == 1

    def test_a_job_that_ends_within_the_limit_is_left_alone(self, ravi: User, at: At) -> None:
        told = story(ravi, now=at(0), time_limit_s=HOUR)
        limited(ravi, at(0), day=3_600_000)
        runs(told, at, until=59 * 60)
        assert told.reload().attempt.stop_requested_at is None
        assert len(mails(ravi, "spend_limit_near")) == 1
        assert mails(ravi, "spend_limit_reached") == []

    def test_a_lowered_limit_stops_the_youngest_jobs_until_the_rest_fits(self, ravi: User, at: At) -> None:
        older, younger = (story(ravi, now=at(second), time_limit_s=10 * HOUR) for second in (0, 1))
        for told in (older, younger):
            told.agent.observe(told.attempt, "running", at=at(10), elapsed=0)
            told.agent.observe(told.attempt, "running", at=at(610), elapsed=600)
        # 1.2 USDC have accrued; a quarter of an hour of both is 1.8 more, of one 0.9.
        limited(ravi, at(610), month=2_500_000)
        assert customers_watch(now=at(610)) == 1
        assert (older.reload().attempt.stop_requested_at, younger.reload().attempt.stop_reason) == (None, "spend_limit")
        assert customers_watch(now=at(611)) == 0
        assert older.reload().attempt.stop_requested_at is None

    def test_it_is_told_at_80_percent_and_at_the_limit_each_once(self, ravi: User, ada: User, at: At) -> None:
        told = story(ravi, now=at(0), time_limit_s=10 * HOUR)
        limited(ravi, at(0), day=10 * USDC)
        told.agent.observe(told.attempt, "running", at=at(0), elapsed=0)
        earned(ada, ravi, 7_999_999, at=at(0))
        assert customers_watch(now=at(0)) == 0
        told.agent.observe(told.attempt, "running", at=at(60), elapsed=60)
        assert [customers_watch(now=at(second)) for second in (60, 61, 120)] == [1, 0, 0]
        (near,) = mails(ravi, "spend_limit_near")
        assert "cost 8.059999 USDC" in near.body and "10.00 USDC (24 hours)" in near.body
        earned(ada, ravi, 2 * USDC, at=at(120))
        assert [customers_watch(now=at(second)) for second in (121, 122)] == [1, 0]
        assert len(mails(ravi, "spend_limit_reached")) == 1
        assert told.reload().attempt.stop_reason == "spend_limit"

    def test_a_notice_is_for_one_period_of_one_limit(self, ravi: User) -> None:
        now = datetime(2026, 11, 30, 12, tzinfo=UTC)
        limited(ravi, now, day=USDC, month=USDC)

        def take(period: str, percent: int, at: datetime) -> bool:
            found = {str(each.period): each for each in spending_of(party_of(ravi), at, holds=HOLD_PREFIX)}
            with transaction.atomic():
                return spend_notice_take(spending=found[period], percent=percent, now=at)

        assert [take("month", 80, now), take("month", 80, now), take("month", 100, now)] == [True, False, True]
        assert take("month", 80, now + timedelta(hours=1)) is False
        assert take("month", 80, datetime(2026, 12, 1, tzinfo=UTC)) is True
        assert [take("day", 100, now), take("day", 80, now), take("day", 100, now + timedelta(hours=23))] == [
            True,
            False,
            False,
        ]
        assert take("day", 100, now + timedelta(hours=24, seconds=1)) is True
        limited(ravi, now + timedelta(seconds=1), month=2 * USDC)
        assert take("month", 80, now) is True

    def test_without_a_limit_nothing_is_stopped_or_told(self, ravi: User, at: At) -> None:
        told = story(ravi, now=at(0), time_limit_s=10 * HOUR)
        runs(told, at, until=120)
        limited(ravi, at(121), day=USDC)
        limited(ravi, at(121.5), day=None)
        told.agent.observe(told.attempt, "running", at=at(50 * 60), elapsed=50 * 60)
        assert holds_renew(now=at(50 * 60)) == 1
        assert customers_watch(now=at(50 * 60)) == 0
        assert not SpendNotice.objects.exists()


class TestSetting:
    def test_raising_and_lifting_need_the_password_lowering_does_not(self, ravi: User, at: At) -> None:
        party = party_of(ravi)

        def set_to(reauthenticated: bool, **limits: int | None) -> int:
            return len(
                spend_limits_set(party=party, limits=limits, actor=ravi, reauthenticated=reauthenticated, now=at(0))
            )

        assert set_to(False, day=10 * USDC, month=100 * USDC) == 2
        assert set_to(False, day=10 * USDC, month=90 * USDC) == 1
        for looser in ({"day": 11 * USDC}, {"month": None}, {"day": 1 * USDC, "month": None}):
            with pytest.raises(Denied) as refused:
                set_to(False, **looser)
            assert refused.value.code == "reauthentication_required"
        found = {str(each.period): each.limit_micro for each in spending_of(party, at(1), holds=HOLD_PREFIX)}
        assert found == {"day": 10 * USDC, "month": 90 * USDC}
        assert set_to(True, day=11 * USDC, month=None) == 2
        assert SpendLimit.objects.count() == 5

    def test_bad_amounts_strangers_and_periods_are_refused_and_nothing_moves(
        self, ravi: User, eve: User, at: At
    ) -> None:
        for limits, field in (
            ({"day": 0}, "day"),
            ({"month": -1}, "month"),
            ({"day": 10**13}, "day"),
            ({"week": 1}, "period"),
        ):
            with pytest.raises(Invalid) as bad:
                spend_limits_set(party=party_of(ravi), limits=limits, actor=ravi, reauthenticated=True, now=at(0))
            assert list(bad.value.fields) == [field]
        with pytest.raises(Denied):
            spend_limits_set(party=party_of(ravi), limits={"day": 1}, actor=eve, reauthenticated=True, now=at(0))
        assert not SpendLimit.objects.exists()

    @pytest.mark.parametrize("table", ["billing_spendlimit", "billing_spendnotice"])
    @pytest.mark.parametrize("statement", ["UPDATE {} SET created_at = now()", "DELETE FROM {}", "TRUNCATE {} CASCADE"])
    def test_the_database_keeps_what_was_allowed_and_told(self, ravi: User, at: At, table: str, statement: str) -> None:
        limited(ravi, at(0), month=USDC)
        with transaction.atomic():
            (_day, month) = spending_of(party_of(ravi), at(0), holds=HOLD_PREFIX)
            assert spend_notice_take(spending=month, percent=80, now=at(0))
        with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement.format(table))


class TestPages:
    def test_the_page_sets_lowers_and_asks_for_the_password_to_raise(self, ravi: User, signed_in: SignedIn) -> None:
        client = signed_in(ravi)
        assert client.post("/billing/limits/", {"day": "5", "month": ""}).status_code == 302
        text = client.get("/billing/").content.decode()
        assert "of at most 5.00" in text and 'value="5.00"' in text
        asked = client.post("/billing/limits/", {"day": "50", "month": ""})
        assert asked.status_code == 302 and asked["Location"].startswith("/account/reauthenticate/")
        assert SpendLimit.objects.get().amount_micro == 5 * USDC
        # The password is given, and what was asked for is done by itself.
        done = client.post(asked["Location"], {"password": PASSWORD}, follow=True)
        assert done.status_code == 200
        assert SpendLimit.objects.order_by("-id").first().amount_micro == 50 * USDC  # type: ignore[union-attr]

    def test_a_bad_amount_is_said_beside_its_field(self, ravi: User, signed_in: SignedIn) -> None:
        answer = signed_in(ravi).post("/billing/limits/", {"day": "0", "month": "5"})
        assert answer.status_code == 400
        assert "allowed: more than 0" in answer.content.decode()
        assert not SpendLimit.objects.exists()

    def test_a_log_in_alone_is_no_confirmation(self, ravi: User, client: Client) -> None:
        """Who takes over a session that has just begun raises nothing."""
        logged_in = client.post("/account/login/", {"login": ravi.email, "password": PASSWORD})
        assert logged_in.status_code == 302
        answers = [
            client.patch("/api/v1/billing/limits", json.dumps({"day": day}), content_type="application/json")
            for day in (5 * USDC, None)
        ]
        assert [answer.status_code for answer in answers] == [200, 403]
        assert SpendLimit.objects.get().amount_micro == 5 * USDC

    def test_the_api_shows_sets_and_refuses_to_raise(self, ravi: User, signed_in: SignedIn) -> None:
        client = signed_in(ravi)

        def patch(**limits: int | None) -> tuple[int, object]:
            answer = client.patch("/api/v1/billing/limits", json.dumps(limits), content_type="application/json")
            return answer.status_code, answer.json()

        status, found = patch(day=5 * USDC)
        assert status == 200
        day, month = found  # type: ignore[misc]
        assert (day["limit_micro"], day["room_micro"], month["limit_micro"], month["room_micro"]) == (
            5 * USDC,
            5 * USDC,
            None,
            None,
        )
        status, refused = patch(day=None)
        assert (status, refused["code"]) == (403, "reauthentication_required")  # type: ignore[index]
        assert client.get("/api/v1/billing/limits").json()[0]["limit_micro"] == 5 * USDC

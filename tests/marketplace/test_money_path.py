"""Where money could leak between metering and ledger, each as it would hurt somebody; and whole rentals told by numbers.

3.6 USDC an hour is 0.001 USDC (1,000 micro) a second.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError

from accounts.models import User
from accounts.selectors import party_of
from billing.selectors import balance_of, earnings_of, payable_of, pending_of
from billing.selectors.balances import house_balance
from billing.services import earnings_mature, fee_rate_set, hold_place, hold_release, policy_set
from core.errors import Conflict
from marketplace.invariants import HoldsBelongToOpenRentals
from marketplace.models import Charge, Rental
from marketplace.services import (
    Placed,
    attempts_sweep,
    holds_renew,
    job_place,
    jobs_place,
    placement,
    queue_sweep,
    rate_set,
    rental_settle,
    rentals_settle_ended,
    settlement,
    sweeping,
    usage_settle,
    windows,
    windows_close,
)
from tests.factories.billing import funded
from tests.factories.marketplace import Agent, Story, job_new, listing_new, live_attempt, story
from tests.marketplace.conftest import At

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("books")]

HOUR = 3600
START = 100_000_000


def rental_of(told: Story) -> Rental:
    return Rental.objects.get(attempt=told.attempt)


def works(told: Story, at: At, *, begin: float, until: float, step: float = 60) -> None:
    """What the platform's minutes and quarters do while a container runs: reports, windows, holds, charges."""
    second, posted = begin, begin
    while second <= until:
        told.agent.observe(told.attempt, "running", at=at(second), elapsed=int(second - begin))
        windows_close(now=at(second))
        if second - posted >= 900:
            usage_settle(now=at(second))
            posted = second
        second += step


class TestLeaks:
    def test_a_rental_that_cannot_be_settled_does_not_keep_the_holds_of_others(
        self, ravi: User, eve: User, at: At, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        poisoned, healthy = story(ravi, now=at(0)), story(eve, now=at(0))
        for told in (poisoned, healthy):
            told.agent.observe(told.attempt, "running", at=at(10), elapsed=0)
            told.agent.end(told.attempt, at=at(40), reason="gpu_lost", exit_code=None, elapsed=30)
        credit = settlement._credit

        def refuse(rental: Rental, now: object) -> int:
            if rental.attempt_id == poisoned.attempt.pk:
                raise Conflict("One of these charges was given back before.")
            return credit(rental, at(50))

        monkeypatch.setattr(settlement, "_credit", refuse)
        assert rental_of(poisoned).pk < rental_of(healthy).pk
        assert rentals_settle_ended(now=at(50)) == 1
        assert balance_of(party_of(eve)).held_micro == 0
        monkeypatch.undo()
        assert rentals_settle_ended(now=at(60)) == 1
        assert balance_of(party_of(ravi)).held_micro == 0

    def test_a_credit_takes_the_last_hours_back_and_leaves_what_was_earned_before(self, ravi: User, at: At) -> None:
        policy_set(name="maturing_new_provider_seconds", value=5 * HOUR, valid_from=at(-1))
        told = story(ravi, now=at(0), time_limit_s=24 * HOUR)
        works(told, at, begin=0, until=10 * HOUR, step=900)
        provider = told.listing.provider.party
        earnings_mature(now=at(10 * HOUR))  # the first five hours; they may have been paid out by now
        matured = payable_of(provider)
        assert matured == 5 * HOUR * 900
        told.agent.end(told.attempt, at=at(10 * HOUR + 30), reason="gpu_lost", exit_code=None, elapsed=10 * HOUR + 30)
        assert rental_settle(rental_id=rental_of(told).pk, now=at(10 * HOUR + 31))
        assert rental_of(told).credited_micro == 4 * HOUR * 1_000
        assert payable_of(provider) == matured
        assert pending_of(provider) == (HOUR + 30) * 900
        assert balance_of(party_of(ravi)).balance_micro == START - (6 * HOUR + 30) * 1_000

    def test_a_credit_also_comes_back_where_the_fee_took_everything(self, ravi: User, at: At) -> None:
        fee_rate_set(bps=10_000, valid_from=at(-1), now=at(-2))
        told = story(ravi, now=at(0))
        told.agent.observe(told.attempt, "running", at=at(0), elapsed=0)
        told.agent.end(told.attempt, at=at(60), reason="gpu_lost", exit_code=None, elapsed=60)
        assert rental_settle(rental_id=rental_of(told).pk, now=at(61))
        balance = balance_of(party_of(ravi))
        assert (balance.balance_micro, balance.held_micro, house_balance("platform_fee")) == (START, 0, 0)

    def test_a_job_that_ran_for_more_than_a_day_is_tried_again_when_its_machine_fails(self, ravi: User, at: At) -> None:
        told = story(ravi, now=at(0), gpus=2, max_attempts=2, time_limit_s=48 * HOUR)
        told.agent.observe(told.attempt, "running", at=at(10), elapsed=0)
        told.agent.end(told.attempt, at=at(25 * HOUR), reason="gpu_lost", exit_code=None, elapsed=25 * HOUR - 10)
        assert queue_sweep(now=at(25 * HOUR + 1)) == 0
        assert told.reload().job.status == "queued"
        assert jobs_place(now=at(25 * HOUR + 601)) == 1

    def test_an_offer_that_nobody_takes_up_does_not_make_the_wait_begin_anew(self, ravi: User, at: At) -> None:
        told = story(ravi, now=at(0))
        assert attempts_sweep(now=at(61)) == 1
        assert told.reload().job.queued_at == at(0)
        assert rental_settle(rental_id=rental_of(told).pk, now=at(62))
        assert balance_of(party_of(ravi)).held_micro == 0

    def test_an_agent_cannot_claim_to_have_run_since_before_the_calendar(self, ravi: User, at: At) -> None:
        told = story(ravi, now=at(0))
        told.agent.observe(told.attempt, "running", at=at(30), elapsed=2**53 - 1)
        told.agent.end(told.attempt, at=at(60), elapsed=2**53 - 1)
        assert rental_settle(rental_id=rental_of(told).pk, now=at(61))
        assert rental_of(told).billed_seconds == 60  # since it was offered: before that it cannot have run

    def test_an_attempt_that_cannot_be_swept_does_not_keep_the_machines_of_others(
        self, ravi: User, eve: User, at: At, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        poisoned, healthy = story(ravi, now=at(0)), story(eve, now=at(1))
        expire = sweeping._expire

        def refuse(attempt_id: object, now: datetime) -> bool:
            if attempt_id == poisoned.attempt.pk:
                raise Conflict("its outcome was told before")
            return expire(healthy.attempt.pk, now)

        monkeypatch.setattr(sweeping, "_expire", refuse)
        assert attempts_sweep(now=at(120)) == 1
        assert healthy.reload().attempt.status == "ended"

    def test_a_hold_that_cannot_be_renewed_does_not_keep_others_from_it(
        self, ravi: User, eve: User, at: At, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        poisoned, healthy = (story(person, now=at(0), time_limit_s=4 * HOUR) for person in (ravi, eve))
        for told in (poisoned, healthy):
            told.agent.observe(told.attempt, "running", at=at(0), elapsed=0)
        renew = windows._renew

        def refuse(rental_id: object, now: datetime) -> bool:
            if rental_id == rental_of(poisoned).pk:
                raise OperationalError("canceling statement due to lock timeout")
            return renew(rental_of(healthy).pk, now)

        monkeypatch.setattr(windows, "_renew", refuse)
        assert holds_renew(now=at(50 * 60)) == 1
        assert balance_of(party_of(eve)).held_micro > balance_of(party_of(ravi)).held_micro

    def test_a_job_that_breaks_the_scheduler_does_not_stand_in_front_of_everybodys(
        self, ravi: User, eve: User, at: At, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        listing_new(gpus=2)
        for person in (ravi, eve):
            funded(person, START, now=at(0))
        poisoned, healthy = job_new(ravi, now=at(0)), job_new(eve, now=at(1))
        plan = placement.attempt_plan

        def refuse(**options: Any) -> dict[str, object]:
            if options["job"].pk == poisoned.pk:
                raise ValueError("environment: found something the wire does not carry")
            return plan(**options)

        monkeypatch.setattr(placement, "attempt_plan", refuse)
        assert jobs_place(now=at(2)) == 1
        healthy.refresh_from_db()
        assert healthy.status == "active"
        assert balance_of(party_of(ravi)).held_micro == 0

    def test_a_forgotten_hold_is_found(self, ravi: User, at: At) -> None:
        funded(ravi, START, now=at(0))
        assert HoldsBelongToOpenRentals().check() == []
        hold_place(party=party_of(ravi), amount_micro=1, source="hold:rental:gone", now=at(0))
        (found,) = HoldsBelongToOpenRentals().check()
        assert (found.subject, found.message) == ("hold:rental:gone", "is open, its rental is settled or was never")
        hold_release(source="hold:rental:gone", now=at(1))


class TestStories:
    """Submitting, placing, running, ending, maturing: every number by hand."""

    def test_a_job_of_two_gpus_over_a_change_of_price_and_fee_that_ends_in_the_middle_of_a_second(
        self, ravi: User, at: At
    ) -> None:
        told = story(ravi, now=at(0), gpus=2, gpu_count=2, rate_micro=2_490_000, time_limit_s=3 * HOUR)
        customer, provider = party_of(ravi), told.listing.provider.party
        assert balance_of(customer).held_micro == 2 * 2_490_000
        works(told, at, begin=20, until=20 + HOUR)
        # Dearer and with twice the fee from now on; what runs keeps both.
        rate_set(
            provider=told.listing.provider,
            gpu_model=told.listing.gpu_model,
            machine=told.listing.machine,
            rate_micro=9_000_000,
            actor=None,
            now=at(HOUR),
        )
        fee_rate_set(bps=2_000, valid_from=at(HOUR + 1), now=at(HOUR))
        works_on = 20 + HOUR + 60
        while works_on < 2 * HOUR:
            told.agent.observe(told.attempt, "running", at=at(works_on), elapsed=works_on - 20)
            windows_close(now=at(works_on))
            works_on += 60
        usage_settle(now=at(2 * HOUR))
        told.agent.end(told.attempt, at=at(2 * HOUR + 7.4), elapsed=2 * HOUR - 13)
        rental = rental_of(told)
        assert rental_settle(rental_id=rental.pk, now=at(2 * HOUR + 8))
        rental.refresh_from_db()
        seconds = 2 * HOUR - 13
        charged = 2_490_000 * 2 * seconds // HOUR
        assert (rental.billed_seconds, rental.charged_micro, rental.fee_bps) == (seconds, charged, 1_000)
        assert sum(Charge.objects.values_list("amount_micro", flat=True)) == charged
        balance = balance_of(customer)
        assert (balance.balance_micro, balance.held_micro) == (START - charged, 0)
        fee = house_balance("platform_fee")
        assert pending_of(provider) + fee == charged
        assert abs(fee - charged // 10) <= Charge.objects.count()  # each charge is split by itself, to the micro-USDC
        lines = earnings_of(provider, at(-1), at(3 * HOUR))
        assert [row.amount_micro for row in lines.by_gpu] == pytest.approx([pending_of(provider) / 2] * 2, abs=10)
        assert lines.total_micro == pending_of(provider)
        dearer = job_new(ravi, max_rate_micro=9_000_000, gpu_count=2, now=at(2 * HOUR + 9))
        assert job_place(job_id=dearer.pk, now=at(2 * HOUR + 10)) is Placed.PLACED
        again = Rental.objects.get(attempt__job=dearer)
        assert (again.rate_micro, again.fee_bps) == (9_000_000, 2_000)

    def test_a_fault_is_credited_once_and_the_second_machine_is_paid_for_its_own_seconds(
        self, ravi: User, at: At
    ) -> None:
        told = story(ravi, now=at(0), gpus=2, max_attempts=2, time_limit_s=2 * HOUR)
        customer, provider = party_of(ravi), told.listing.provider.party
        works(told, at, begin=5, until=5 + 1_800)
        for _twice in range(2):
            told.agent.end(told.attempt, at=at(1_900), reason="gpu_lost", exit_code=None, elapsed=1_890)
        for _twice in range(2):
            assert rental_settle(rental_id=rental_of(told).pk, now=at(1_901))
        balance = balance_of(customer)
        assert (balance.balance_micro, balance.held_micro, pending_of(provider)) == (START, 0, 0)
        assert jobs_place(now=at(1_900 + 601)) == 1
        second = live_attempt(told.job)
        agent = Agent(told.listing.machine)
        agent.observe(second, "running", at=at(2_600), elapsed=0)
        holds_renew(now=at(2_600))
        agent.end(second, at=at(2_700), elapsed=100)
        assert rentals_settle_ended(now=at(2_701)) == 1
        balance = balance_of(customer)
        assert (balance.balance_micro, balance.held_micro) == (START - 100_000, 0)
        assert (pending_of(provider), house_balance("platform_fee")) == (90_000, 10_000)
        assert told.reload().job.status == "succeeded"
        earnings_mature(now=at(2_701) + timedelta(days=8))
        assert (payable_of(provider), pending_of(provider)) == (90_000, 0)

"""Money by the second: worked examples. 3.6 USDC an hour is 0.001 USDC (1,000 micro) a second."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, connection, transaction

from accounts.models import User
from accounts.selectors import party_of
from billing.selectors import balance_of, earnings_of, pending_of
from marketplace.models import Charge, Rental, UsageWindow
from marketplace.services import (
    Placed,
    attempts_sweep,
    holds_renew,
    job_place,
    rate_set,
    rental_settle,
    rentals_settle_ended,
    usage_settle,
    windows_close,
    windows_extend,
)
from marketplace.states import PARTITION_MARGIN_SECONDS
from tests.factories.marketplace import Story, job_new, story
from tests.marketplace.conftest import At

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("books")]

START = 100_000_000


def run(told: Story, at: At, *, begin: float, until: float, step: float = 60) -> None:
    """The container starts at ``begin`` and is reported every ``step`` seconds up to ``until``."""
    second = begin
    while second <= until:
        told.agent.observe(told.attempt, "running", at=at(second), elapsed=int(second - begin))
        second += step


def settled(told: Story, at: At, second: float) -> Rental:
    rental = Rental.objects.get(attempt=told.attempt)
    assert rental_settle(rental_id=rental.pk, now=at(second))
    rental.refresh_from_db()
    return rental


def test_a_job_that_ends_in_the_middle_of_a_second(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0))
    run(told, at, begin=10, until=70)
    windows_close(now=at(75))
    told.agent.end(told.attempt, at=at(100.7), elapsed=90)
    rental = settled(told, at, 101)
    assert (rental.billed_seconds, rental.charged_micro, rental.settled_at) == (90, 90_000, at(101))
    balance = balance_of(party_of(ravi))
    assert (balance.balance_micro, balance.held_micro) == (START - 90_000, 0)
    assert pending_of(told.listing.provider.party) == 81_000


def test_the_smaller_of_the_servers_and_the_agents_seconds_is_billed(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0))
    told.agent.observe(told.attempt, "running", at=at(10), elapsed=0)
    told.agent.end(told.attempt, at=at(60), elapsed=5_000)  # a clock that runs too fast
    assert settled(told, at, 61).billed_seconds == 50
    other = story(ravi, now=at(0))
    other.agent.observe(other.attempt, "running", at=at(10), elapsed=0)
    other.agent.end(other.attempt, at=at(60), elapsed=40)  # a report that came late
    assert settled(other, at, 61).billed_seconds == 40


def test_windows_hold_a_quarter_each_and_grow_only(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0), time_limit_s=7200)
    run(told, at, begin=0, until=2400, step=30)
    for _again in range(2):
        windows_extend()
    rows = list(UsageWindow.objects.order_by("starts_at"))
    assert rows[-1].to_seconds == 2400
    assert all(row.starts_at.minute % 15 == 0 and row.starts_at.second == 0 for row in rows)
    run(told, at, begin=0, until=600, step=300)  # late repetitions
    windows_extend()
    assert UsageWindow.objects.order_by("starts_at").last() == rows[-1]


def test_windows_of_one_rental_meet_without_gap(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0), time_limit_s=7200)
    for until in range(0, 3600, 60):
        told.agent.observe(told.attempt, "running", at=at(until), elapsed=until)
        windows_extend()
    rows = list(UsageWindow.objects.order_by("starts_at"))
    assert len(rows) in (4, 5)
    assert rows[0].from_seconds == 0
    assert [row.from_seconds for row in rows[1:]] == [row.to_seconds for row in rows[:-1]]


def test_settling_is_cumulative_and_twice_is_once(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0), rate_micro=2_490_000, time_limit_s=7200)
    for minute in range(1, 46):
        told.agent.observe(told.attempt, "running", at=at(minute * 60), elapsed=minute * 60 - 60)
        windows_close(now=at(minute * 60))
        if minute % 15 == 0:
            assert usage_settle(now=at(minute * 60)) == 1
            assert usage_settle(now=at(minute * 60)) == 0
    rental = Rental.objects.get()
    assert Charge.objects.count() == 3
    assert rental.charged_micro == 2_490_000 * 44 * 60 // 3600
    told.agent.end(told.attempt, at=at(45 * 60 + 7), elapsed=44 * 60 + 7)
    assert settled(told, at, 45 * 60 + 8).charged_micro == 2_490_000 * (44 * 60 + 7) // 3600
    assert rental_settle(rental_id=rental.pk, now=at(9_999))
    assert Charge.objects.count() == 4


def test_a_change_of_price_leaves_a_running_rental_alone(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0), gpus=2)
    told.agent.observe(told.attempt, "running", at=at(1), elapsed=0)
    listing = told.listing
    rate_set(
        provider=listing.provider,
        gpu_model=listing.gpu_model,
        machine=listing.machine,
        rate_micro=36_000_000,
        actor=None,
        now=at(2),
    )
    told.agent.end(told.attempt, at=at(101), elapsed=100)
    assert settled(told, at, 102).charged_micro == 100_000
    dear = job_new(ravi, max_rate_micro=36_000_000, now=at(103))

    assert job_place(job_id=dear.pk, now=at(104)) is Placed.PLACED
    assert Rental.objects.get(attempt__job=dear).rate_micro == 36_000_000


def test_an_unreachable_machine_is_paid_up_to_the_last_confirmed_report(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0), disconnect_grace_s=1800)
    run(told, at, begin=0, until=120)
    assert attempts_sweep(now=at(120 + 1800 + PARTITION_MARGIN_SECONDS)) == 1
    rental = settled(told, at, 5_000)
    assert (rental.billed_seconds, rental.charged_micro) == (120, 120_000)


def test_a_providers_fault_gives_the_time_back(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0))
    run(told, at, begin=0, until=1200)
    windows_close(now=at(1201))
    usage_settle(now=at(1202))
    told.agent.end(told.attempt, at=at(1230), reason="gpu_lost", exit_code=None, elapsed=1230)
    rental = settled(told, at, 1231)
    assert (rental.charged_micro, rental.credited_micro) == (1_230_000, 1_230_000)
    assert balance_of(party_of(ravi)).balance_micro == START
    assert pending_of(told.listing.provider.party) == 0
    assert rental_settle(rental_id=rental.pk, now=at(1300))
    assert balance_of(party_of(ravi)).balance_micro == START


def test_a_customers_own_fault_is_paid(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0))
    run(told, at, begin=0, until=60)
    told.agent.end(told.attempt, at=at(90), reason="nonzero_exit", exit_code=1, elapsed=90)
    assert settled(told, at, 91).credited_micro == 0
    assert balance_of(party_of(ravi)).balance_micro == START - 90_000


def test_each_gpu_earns_its_part_and_the_parts_add_up(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0), gpus=3, gpu_count=3, rate_micro=1_000_000)
    told.agent.observe(told.attempt, "running", at=at(0.5), elapsed=0)
    told.agent.end(told.attempt, at=at(8), elapsed=7)
    rental = settled(told, at, 9)
    assert rental.charged_micro == 1_000_000 * 3 * 7 // 3600 == 5_833
    found = earnings_of(told.listing.provider.party, at(-60), at(60))
    # 90 % of 5,833 is 5,249.7: by largest remainder the provider gets 5,250 and the platform 583.
    assert [row.amount_micro for row in found.by_gpu] == [1_750, 1_750, 1_750]
    assert pending_of(told.listing.provider.party) == found.total_micro == 5_250


class TestHolds:
    def test_a_hold_is_renewed_with_a_quarter_of_an_hour_left(self, ravi: User, at: At) -> None:
        told = story(ravi, now=at(0), time_limit_s=10 * 3600)
        told.agent.observe(told.attempt, "running", at=at(0), elapsed=0)
        assert balance_of(party_of(ravi)).held_micro == 3_600_000
        assert holds_renew(now=at(44 * 60)) == 0
        assert holds_renew(now=at(46 * 60)) == 1
        assert holds_renew(now=at(46 * 60)) == 0
        assert balance_of(party_of(ravi)).held_micro == 3_600_000 + 46 * 60 * 1_000

    def test_it_is_not_renewed_beyond_the_time_limit(self, ravi: User, at: At) -> None:
        told = story(ravi, now=at(0), time_limit_s=3600)
        told.agent.observe(told.attempt, "running", at=at(0), elapsed=0)
        assert holds_renew(now=at(3590)) == 0

    def test_who_cannot_pay_on_is_stopped_while_the_rest_still_covers_the_stop(self, ravi: User, at: At) -> None:
        told = story(ravi, now=at(0), balance_micro=4_000_000, time_limit_s=10 * 3600)
        run(told, at, begin=0, until=2760)
        windows_close(now=at(2760))
        told.reload()
        assert (told.attempt.status, told.attempt.stop_reason) == ("stopping", "balance_exhausted")
        assert told.agent.plan()[told.attempt.pk]["stop_reason"] == "balance_exhausted"
        told.agent.end(told.attempt, at=at(2790), reason="balance_exhausted", exit_code=143, elapsed=2790)
        rental = settled(told, at, 2791)
        assert rental.charged_micro == 2_760_000
        assert told.reload().job.reason == "balance_exhausted"
        balance = balance_of(party_of(ravi))
        assert (balance.balance_micro, balance.held_micro) == (1_240_000, 0)


def test_a_lost_settlement_is_caught_up(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0))
    told.agent.observe(told.attempt, "running", at=at(0), elapsed=0)
    told.agent.end(told.attempt, at=at(30), elapsed=30)
    assert rentals_settle_ended(now=at(90)) == 1
    assert rentals_settle_ended(now=at(90)) == 0
    assert balance_of(party_of(ravi)).balance_micro == START - 30_000


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE marketplace_charge SET amount_micro = 0",
        "DELETE FROM marketplace_charge",
        "UPDATE marketplace_rental SET rate_micro = 1",
        "UPDATE marketplace_rental SET fee_bps = 0",
        "DELETE FROM marketplace_rental",
    ],
)
def test_the_database_keeps_what_was_agreed_and_charged(ravi: User, at: At, statement: str) -> None:
    told = story(ravi, now=at(0))
    told.agent.observe(told.attempt, "running", at=at(0), elapsed=0)
    told.agent.end(told.attempt, at=at(30), elapsed=30)
    settled(told, at, 31)
    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)

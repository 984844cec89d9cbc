"""Cancel works in every state, costs nothing from then on, and twice is once."""

from __future__ import annotations

import pytest

from accounts.models import User
from accounts.selectors import party_of
from billing.selectors import balance_of
from marketplace.models import Rental
from marketplace.services import attempts_sweep, job_cancel, jobs_stop, rental_settle
from marketplace.states import OFFER_SECONDS, PARTITION_MARGIN_SECONDS, STOP_SECONDS
from tests.factories.billing import funded
from tests.factories.marketplace import Story, job_new, story
from tests.marketplace.conftest import At

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("books")]


def test_in_the_queue_it_is_over_at_once(ravi: User, at: At) -> None:
    funded(ravi, 10_000_000)
    job = job_cancel(job=job_new(ravi), actor=ravi, now=at(1))
    assert (job.status, job.reason, job.ended_at) == ("cancelled", "cancelled", at(1))
    assert job_cancel(job=job, actor=ravi, now=at(2)).ended_at == at(1)


def _reach(told: Story, state: str, at: At) -> None:
    for second, each, elapsed in ((1, "pulling", None), (2, "starting", None), (3, "running", 0), (4, "stopping", 1)):
        if state != "offered":
            told.agent.observe(told.attempt, each, at=at(second), elapsed=elapsed)
        if each == state or state == "offered":
            return


@pytest.mark.parametrize("state", ["offered", "pulling", "starting", "running", "stopping"])
def test_a_live_attempt_is_told_to_stop_and_the_job_ends_when_it_has(ravi: User, at: At, state: str) -> None:
    told = story(ravi, now=at(0))
    _reach(told, state, at)
    job_cancel(job=told.job, actor=ravi, now=at(10))
    job_cancel(job=told.job, actor=ravi, now=at(11))
    told.reload()
    assert (told.job.status, told.attempt.status, told.attempt.stop_requested_at) == ("active", "stopping", at(10))
    body = told.agent.plan()[told.attempt.pk]
    assert (body["desired"], body["stop_reason"]) == ("stop", "cancelled")
    told.agent.observe(told.attempt, "running", at=at(15), elapsed=12)  # was already under way
    told.agent.end(told.attempt, at=at(20), reason="cancelled", exit_code=143, elapsed=17)
    told.reload()
    assert (told.job.status, told.job.reason) == ("cancelled", "cancelled")
    assert told.listing.gpus_free == 1
    assert told.agent.plan() == {}


def test_seconds_after_the_cancel_are_free(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0), rate_micro=3_600_000)  # 0.001 USDC a second
    told.agent.observe(told.attempt, "running", at=at(5), elapsed=0)
    told.agent.observe(told.attempt, "running", at=at(50), elapsed=45)
    job_cancel(job=told.job, actor=ravi, now=at(65))
    told.agent.end(told.attempt, at=at(95), reason="cancelled", exit_code=137, elapsed=90)
    rental = Rental.objects.get()
    rental_settle(rental_id=rental.pk, now=at(100))
    rental.refresh_from_db()
    assert (rental.billed_seconds, rental.charged_micro) == (60, 60_000)
    assert balance_of(party_of(ravi)).balance_micro == 100_000_000 - 60_000


def test_before_anything_ran_it_costs_nothing(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0))
    told.agent.observe(told.attempt, "pulling", at=at(5))
    job_cancel(job=told.job, actor=ravi, now=at(65))
    told.agent.end(told.attempt, at=at(70), reason="cancelled", exit_code=None)
    rental_settle(rental_id=Rental.objects.get().pk, now=at(100))
    balance = balance_of(party_of(ravi))
    assert (balance.balance_micro, balance.held_micro) == (100_000_000, 0)


def test_a_job_that_finished_by_itself_meanwhile_has_succeeded(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0))
    told.agent.observe(told.attempt, "running", at=at(5), elapsed=0)
    job_cancel(job=told.job, actor=ravi, now=at(10))
    told.agent.end(told.attempt, at=at(12), reason="completed", exit_code=0, elapsed=4)
    assert told.reload().job.status == "succeeded"


def test_a_machine_that_never_took_it_up_does_not_hold_the_cancel_up(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0))
    job_cancel(job=told.job, actor=ravi, now=at(10))
    assert attempts_sweep(now=at(10 + OFFER_SECONDS)) == 1
    told.reload()
    assert (told.job.status, told.listing.gpus_free) == ("cancelled", 1)


def test_with_the_machine_cut_off_the_gpu_counts_as_free_only_after_the_grace(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0), disconnect_grace_s=1800)
    told.agent.observe(told.attempt, "running", at=at(100), elapsed=95)
    job_cancel(job=told.job, actor=ravi, now=at(200))
    assert attempts_sweep(now=at(200 + STOP_SECONDS)) == 1  # looked, and waits on
    assert told.reload().job.status == "active"
    free = 100 + 1800 + PARTITION_MARGIN_SECONDS
    assert attempts_sweep(now=at(free - 1)) == 0
    assert attempts_sweep(now=at(free)) == 1
    told.reload()
    assert (told.job.status, told.listing.gpus_free, told.attempt.kept_gpus) == ("cancelled", 1, False)


def test_staff_can_stop_everything_of_one_customer(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0), max_attempts=3)
    told.agent.observe(told.attempt, "running", at=at(1), elapsed=0)
    queued = job_new(ravi, now=at(1))
    assert jobs_stop(customer_id=party_of(ravi).pk, actor="user:olga", now=at(2)) == 2
    queued.refresh_from_db()
    assert (queued.status, queued.reason) == ("cancelled", "platform_stop")
    assert told.reload().attempt.stop_reason == "platform_stop"
    told.agent.end(told.attempt, at=at(5), reason="platform_stop", exit_code=143, elapsed=4)
    told.reload()
    assert (told.job.status, told.job.reason) == ("cancelled", "platform_stop")

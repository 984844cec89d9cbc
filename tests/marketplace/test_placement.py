"""The scheduler: best fit, fair, never a GPU twice, never beyond the window, all or nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from accounts.models import Notification, User
from accounts.selectors import party_of
from billing.selectors import balance_of
from core import clock
from marketplace.models import Attempt, Job, Listing, ListingIndex, Rental
from marketplace.services import Placed, attempts_sweep, job_place, jobs_place, queue_sweep, rate_set
from marketplace.states import OFFER_SECONDS, QUEUE_SECONDS
from providers.models import GpuClaim, PlanItem
from providers.services import gpus_claim, gpus_release
from tests.factories.billing import funded
from tests.factories.cast import person
from tests.factories.marketplace import Agent, job_new, listing_new, live_attempt, provider_new, story
from tests.marketplace.conftest import At

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("books")]
PLACE_QUERIES = 34


def test_a_placed_job_has_claim_hold_rental_and_plan(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0), gpus=4, gpu_count=2, command=("python", "x.py"))
    rental = Rental.objects.get(attempt=told.attempt)
    assert (rental.gpus, rental.rate_micro, rental.fee_bps, rental.started_at) == (2, 3_600_000, 1_000, None)
    assert balance_of(party_of(ravi)).held_micro == 7_200_000
    assert GpuClaim.objects.filter(holder=told.attempt.pk, live=True, kind="job").count() == 2
    assert told.reload().listing.gpus_free == 2
    assert ListingIndex.objects.get(pk=told.listing.pk).gpus_free == 2
    body = told.agent.plan()[told.attempt.pk]
    assert (body["desired"], body["command"], body["image"]) == ("run", ["python", "x.py"], told.job.image)
    assert len(body["gpu_uuids"]) == 2
    assert body["limits"]["memory_bytes"] == 2**38 * 90 // 100 * 2 // 4
    assert (told.job.status, told.attempt.status) == ("active", "offered")


def test_the_best_ranked_fit_is_taken(ravi: User, at: At) -> None:
    provider = provider_new()
    worse, better = (listing_new(provider, rate_micro=rate) for rate in (300_000, 300_000))
    for listing, rank in ((worse, 1), (better, 2)):
        ListingIndex.objects.filter(pk=listing.pk).update(rank=rank)
    funded(ravi, 10_000_000)
    job = job_new(ravi)
    jobs_place(now=at(1))
    assert live_attempt(job).machine_id == better.machine_id


def test_criteria_are_respected(ravi: User, at: At) -> None:
    listing_new(provider_new(country="US"), rate_micro=300_000)
    wanted = listing_new(provider_new(country="FR"), rate_micro=600_000)
    funded(ravi, 10_000_000)
    job = job_new(ravi, country="FR")
    nowhere = job_new(ravi, country="FR", max_rate_micro=500_000)
    jobs_place(now=at(1))
    assert live_attempt(job).machine_id == wanted.machine_id
    nowhere.refresh_from_db()
    assert (nowhere.status, nowhere.waiting) == ("queued", "capacity")


def test_fewest_running_gpus_first_then_first_come(ravi: User, at: At) -> None:
    carl = person("Carl")
    listing_new(gpus=4)
    for customer in (ravi, carl):
        funded(customer, 100_000_000)
    first, second, third = (job_new(ravi, now=at(second)) for second in (1, 2, 3))
    late = job_new(carl, now=at(4))
    jobs_place(now=at(5))
    order = list(Attempt.objects.order_by("pk").values_list("job_id", flat=True))
    assert order == [first.pk, late.pk, second.pk, third.pk]


def test_a_job_that_cannot_finish_inside_the_window_waits(ravi: User, at: At) -> None:
    listing = listing_new()
    ends = at(3600)
    Listing.objects.filter(pk=listing.pk).update(open_until=ends)
    ListingIndex.objects.filter(pk=listing.pk).update(open_until=ends)
    funded(ravi, 10_000_000)
    long, short = job_new(ravi, time_limit_s=3601), job_new(ravi, time_limit_s=3600)
    assert jobs_place(now=at(0)) == 1
    long.refresh_from_db()
    assert long.status == "queued"
    assert live_attempt(short)


def test_a_stale_index_does_not_open_the_window(ravi: User, at: At) -> None:
    listing = listing_new()
    Listing.objects.filter(pk=listing.pk).update(open_until=at(60))
    funded(ravi, 10_000_000)
    assert job_place(job_id=job_new(ravi, time_limit_s=3600).pk, now=at(0)) is Placed.CAPACITY


def test_never_under_a_benchmark(ravi: User, at: At) -> None:
    listing = listing_new()
    gpu = listing.machine.gpus.get()
    gpus_claim(gpu_ids=[gpu.pk], kind="benchmark", holder=listing.pk, now=at(0))
    funded(ravi, 10_000_000)
    job = job_new(ravi)
    assert listing.gpus_free == 1  # the listing does not know of it yet
    assert jobs_place(now=at(1)) == 0
    listing.refresh_from_db()
    assert listing.gpus_free == 0
    assert balance_of(party_of(ravi)).held_micro == 0
    gpus_release(holder=listing.pk, now=at(2))
    ListingIndex.objects.update(gpus_free=1)
    assert jobs_place(now=at(3)) == 1
    assert live_attempt(job)


def test_a_full_market_is_waited_for_and_taken_when_it_frees(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0))
    second = job_new(ravi, max_rate_micro=3_600_000, now=at(1))
    assert jobs_place(now=at(1)) == 0
    told.agent.end(told.attempt, at=at(60), elapsed=50)
    assert jobs_place(now=at(61)) == 1
    second.refresh_from_db()
    assert (second.status, second.waiting) == ("active", "")


def test_a_chosen_listing_that_rose_in_the_queue_starts_nothing(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0))
    listing = told.listing
    waiting = job_new(ravi, listing_id=listing.pk, max_rate_micro=listing.rate_micro, now=at(1))
    rate_set(
        provider=listing.provider,
        gpu_model=listing.gpu_model,
        machine=listing.machine,
        rate_micro=9_000_000,
        actor=None,
        now=at(2),
    )
    jobs_place(now=at(3))
    waiting.refresh_from_db()
    assert (waiting.status, waiting.reason) == ("failed", "rate_changed")
    assert not waiting.attempts.exists()
    message = Notification.objects.get(kind="job_ended")
    assert "rose above the price you saw" in message.body


def test_short_of_funds_at_placement_it_says_so_and_waits(ravi: User, at: At) -> None:
    listing_new(rate_micro=1_000_000, gpus=2)
    funded(ravi, 1_500_000)
    one, two = job_new(ravi, now=at(1)), job_new(ravi, now=at(2))
    assert jobs_place(now=at(3)) == 1
    two.refresh_from_db()
    assert (two.status, two.waiting) == ("queued", "funds")
    assert GpuClaim.objects.filter(live=True).count() == 1
    assert PlanItem.objects.filter(kind="attempt").count() == 1
    funded(ravi, 1_000_000)
    assert jobs_place(now=at(4)) == 1
    assert live_attempt(one)
    assert live_attempt(two)


@pytest.mark.parametrize(("funds", "reason"), [(10_000_000, "no_capacity"), (1_500_000, "no_funds")])
def test_after_a_day_in_the_queue_it_ends_with_the_reason(ravi: User, at: At, funds: int, reason: str) -> None:
    listing_new(rate_micro=1_000_000, gpus=2 if reason == "no_funds" else 1)
    funded(ravi, funds)
    first, job = job_new(ravi, now=at(1)), job_new(ravi, now=at(2))
    jobs_place(now=at(3))
    assert queue_sweep(now=at(2 + QUEUE_SECONDS - 1)) == 0
    assert queue_sweep(now=at(2 + QUEUE_SECONDS)) == 1
    assert queue_sweep(now=at(2 + QUEUE_SECONDS)) == 0
    job.refresh_from_db()
    assert (job.status, job.reason, job.secrets) == ("failed", reason, None)
    assert live_attempt(first)


def test_twice_is_once(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0))
    assert job_place(job_id=told.job.pk, now=at(1)) is Placed.GONE
    assert jobs_place(now=at(1)) == 0
    assert Attempt.objects.count() == 1


def test_a_machine_that_did_not_take_it_up_is_avoided_for_a_while(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0))

    assert attempts_sweep(now=at(OFFER_SECONDS)) == 1
    assert told.reload().job.status == "queued"
    assert jobs_place(now=at(OFFER_SECONDS + 1)) == 0
    other = listing_new(rate_micro=3_600_000)
    assert jobs_place(now=at(OFFER_SECONDS + 2)) == 1
    assert live_attempt(told.job).machine_id == other.machine_id
    assert live_attempt(told.job).number == 2


def test_a_suspended_customers_jobs_stay_where_they_are(ravi: User, at: At) -> None:
    listing_new()
    party = funded(ravi, 10_000_000)
    job_new(ravi)
    type(party).objects.filter(pk=party.pk).update(status="suspended")
    assert jobs_place(now=at(1)) == 0
    assert Job.objects.get().status == "queued"
    assert Agent(Listing.objects.get().machine).plan() == {}


def test_placing_a_job_costs_so_many_statements(ravi: User, django_assert_num_queries: Callable[[int], Any]) -> None:
    """The customer waits for each of them. Two are the savepoint around one listing's try, two that of the
    claim, one reads the spend limits."""
    listing_new(gpus=2)
    funded(ravi, 100_000_000)
    first, second = job_new(ravi), job_new(ravi)
    assert job_place(job_id=first.pk, now=clock.now()) is Placed.PLACED  # what is remembered per process is known now
    with django_assert_num_queries(PLACE_QUERIES):
        assert job_place(job_id=second.pk, now=clock.now()) is Placed.PLACED

"""The last GPU, wanted by twenty customers at once, on real transactions. First without the guard: several get it."""

from __future__ import annotations

import threading
from collections import Counter

import pytest
from django.db import connections

from billing.selectors import balance_of
from billing.services import spend_limits_set
from core import clock, invariants
from core.ids import uuid7
from marketplace.models import Attempt, Job, Listing
from marketplace.services import Placed, job_place, jobs_place
from providers.models import GpuClaim
from providers.services import gpus_claim
from tests.factories.billing import funded
from tests.factories.cast import person
from tests.factories.concurrency import together
from tests.factories.marketplace import job_new, listing_new

CUSTOMERS = 20


@pytest.fixture
def crowd(committed_db: str) -> tuple[Listing, list[Job]]:
    """One free GPU and twenty customers, each with a queued job that wants it."""
    listing = listing_new(rate_micro=1_000_000)
    jobs = []
    for number in range(CUSTOMERS):
        customer = person(f"Customer{number}")
        funded(customer, 5_000_000)
        jobs.append(job_new(customer))
    return listing, jobs


def test_without_the_guard_several_get_the_same_gpu(crowd: tuple[Listing, list[Job]]) -> None:
    """The control: look, then take, without lock and law."""
    listing, _jobs = crowd
    gpu, now = listing.machine.gpus.get(), clock.now()
    with connections["owner"].cursor() as cursor:
        cursor.execute("DROP INDEX providers_claim_one_live")
    looked = threading.Barrier(CUSTOMERS)

    def look_then_take(_number: int) -> bool:
        free = not GpuClaim.objects.filter(gpu=gpu, live=True).exists()
        looked.wait(timeout=60)
        if free:
            GpuClaim.objects.create(gpu=gpu, kind="job", holder=uuid7(), claimed_at=now)
        return free

    assert sum(together(CUSTOMERS, look_then_take)) > 1


def test_the_last_gpu_goes_to_one_of_twenty(crowd: tuple[Listing, list[Job]]) -> None:
    listing, jobs = crowd
    now = clock.now()
    results = together(CUSTOMERS, lambda number: job_place(job_id=jobs[number].pk, now=now))
    assert Counter(results) == {Placed.PLACED: 1, Placed.CAPACITY: CUSTOMERS - 1}
    assert GpuClaim.objects.filter(live=True, kind="job").count() == 1
    winner = Attempt.objects.get()
    held = [job.pk for job in jobs if balance_of(job.customer).held_micro]
    assert held == [winner.job_id]
    listing.refresh_from_db()
    assert listing.gpus_free == 0
    assert invariants.check_all() == []


def test_schedulers_beside_each_other_place_each_job_once(crowd: tuple[Listing, list[Job]]) -> None:
    listing, _jobs = crowd
    now = clock.now()
    for _more in range(3):
        listing_new(listing.provider, rate_micro=1_000_000)
    placed = together(4, lambda _number: jobs_place(now=now))
    assert sum(placed) == 4
    assert Attempt.objects.count() == 4
    assert Job.objects.filter(status="active").count() == 4
    assert invariants.check_all() == []


def test_a_benchmark_and_a_job_never_share_a_gpu(crowd: tuple[Listing, list[Job]]) -> None:
    listing, jobs = crowd
    gpu, now = listing.machine.gpus.get(), clock.now()

    def take(number: int) -> object:
        if number == 0:
            return gpus_claim(gpu_ids=[gpu.pk], kind="benchmark", holder=listing.pk, now=now)
        return job_place(job_id=jobs[number].pk, now=now)

    results = together(8, take)
    claim = GpuClaim.objects.get(live=True)
    won = results[0] is True
    assert claim.kind == ("benchmark" if won else "job")
    assert Attempt.objects.count() == (0 if won else 1)
    assert invariants.check_all() == []


def test_placements_at_once_never_share_the_room_of_a_spend_limit(committed_db: str) -> None:
    """Five GPUs are free, the limit has room for an hour of two."""
    ravi, now = person("Ravi"), clock.now()
    customer = funded(ravi, 50_000_000)
    for _each in range(5):
        listing_new(rate_micro=1_000_000)
    jobs = [job_new(ravi) for _each in range(5)]
    spend_limits_set(party=customer, limits={"day": 2_500_000}, actor=ravi, reauthenticated=False, now=now)
    results = together(5, lambda number: job_place(job_id=jobs[number].pk, now=now))
    assert Counter(results) == {Placed.PLACED: 2, Placed.LIMIT: 3}
    assert balance_of(customer).held_micro == 2_000_000
    assert invariants.check_all() == []

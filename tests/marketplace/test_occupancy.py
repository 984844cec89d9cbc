"""A GPU in use without a job is not offered, and says why; free again it is offered again."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from accounts.models import User
from core import clock
from core.ids import uuid7
from core.models import Delivery
from marketplace.models import Listing, ListingIndex
from marketplace.selectors import FleetFilters, fleet_page
from marketplace.services import Placed, job_place, listing_refresh_gpu
from providers.models import Gpu
from providers.services import gpus_claim, gpus_release
from reliability.models import GpuOccupancy
from reliability.selectors import occupied_of
from reliability.selectors.live import Beat
from reliability.services import occupancies_judge
from reliability.services.heartbeats import beats_apply
from tests.factories.billing import funded
from tests.factories.marketplace import job_new, listing_new

pytestmark = pytest.mark.django_db
T0 = clock.now() + timedelta(hours=1)
"""Long after the benchmarks of the machines made here."""
MINUTE = timedelta(minutes=1)
FREE = {"foreign_processes": 0, "memory_used_bytes": 4 * 2**20}


@pytest.fixture
def listing() -> Listing:
    return listing_new(gpus=2)


def cards(listing: Listing) -> list[Gpu]:
    return list(Gpu.objects.filter(machine=listing.machine_id).order_by("pk"))


def hear(listing: Listing) -> None:
    """The news of a change reaches the listing (its own time is still to come, so the deliverer would wait for it)."""
    for told in Delivery.objects.filter(
        topic="gpu.occupancy", consumer="marketplace.listing_refresh_gpu", done_at=None
    ):
        listing_refresh_gpu(told.subject)
        Delivery.objects.filter(pk=told.pk).update(done_at=T0)
    listing.refresh_from_db()


def say(listing: Listing, minutes: float, **readings: object) -> None:
    """A heartbeat so many minutes after T0 in which the first card says this and the second is free, and its judgement."""
    first, second = cards(listing)
    at = T0 + minutes * MINUTE
    telemetry = json.dumps([{"uuid": first.uuid, **FREE, **readings}, {"uuid": second.uuid, **FREE}])
    beats_apply([Beat(str(listing.machine_id), at=at, first_at=at, boot_id="boot-1", telemetry=telemetry)], now=at)
    occupancies_judge(now=at)
    hear(listing)


def held(listing: Listing, share: float) -> dict[str, object]:
    return {"memory_used_bytes": int(share * (cards(listing)[0].memory_bytes or 0))}


def test_memory_that_a_job_left_behind_takes_the_card_off_at_once(listing: Listing) -> None:
    """Its agent looked after the end: neither the two other readings nor the time after a job are waited for."""
    first, _second = cards(listing)
    holder, end = uuid7(), T0 + timedelta(seconds=55)
    gpus_claim(gpu_ids=[first.pk], kind="job", holder=holder, now=T0)
    gpus_release(holder=holder, now=end)
    say(listing, 1, **held(listing, 0.3), held_after_job=True)
    assert listing.gpus_total == 1
    assert {gpu: row.reason for gpu, row in occupied_of([first.pk]).items()} == {first.pk: "memory_held"}
    say(listing, 2, **held(listing, 0.3), held_after_job=True)
    assert (listing.gpus_total, listing.gpus_free) == (1, 1)
    say(listing, 3)
    assert listing.gpus_total == 2


@pytest.mark.parametrize(("share", "processes", "reason"), [(0.06, 0, "memory_held"), (0.0, 2, "foreign_process")])
def test_three_readings_take_the_card_off_and_one_free_one_puts_it_back(
    listing: Listing, share: float, processes: int, reason: str
) -> None:
    used = held(listing, share) | {"foreign_processes": processes}
    totals = []
    for minute in range(1, 4):
        say(listing, minute, **used)
        totals.append(listing.gpus_total)
    assert totals == [2, 2, 1]
    first, _second = cards(listing)
    assert {gpu: row.reason for gpu, row in occupied_of([first.pk]).items()} == {first.pk: reason}
    words = [each.what for each in fleet_page(listing.provider, FleetFilters()).rows[0].standings]
    assert any("so it is not offered" in what for what in words)
    say(listing, 4)
    assert (listing.gpus_total, GpuOccupancy.objects.count()) == (2, 0)


def test_noise_below_a_twentieth_and_unknown_readings_prove_nothing(listing: Listing) -> None:
    for minute in range(1, 6):
        say(listing, minute, **held(listing, 0.049))
    assert not GpuOccupancy.objects.exists()
    for minute in range(6, 10):
        say(listing, minute, foreign_processes=None, memory_used_bytes=None)
    assert not GpuOccupancy.objects.exists()
    for minute in range(10, 13):
        say(listing, minute, foreign_processes=1)
    say(listing, 13, foreign_processes=None, memory_used_bytes=None)
    assert listing.gpus_total == 1, "not knowing does not set it free either"


def test_one_free_reading_between_begins_anew(listing: Listing) -> None:
    for minute, processes in enumerate([1, 1, 0, 1, 1], start=1):
        say(listing, minute, foreign_processes=processes)
    assert listing.gpus_total == 2


def test_the_same_look_counts_once(listing: Listing) -> None:
    for second in range(9):
        say(listing, 1 + second / 60, foreign_processes=1)
    assert GpuOccupancy.objects.get().samples == 1
    for _twin in range(3):
        occupancies_judge(now=T0 + 2 * MINUTE)
    assert GpuOccupancy.objects.get().samples == 1


def test_a_job_may_use_its_card_and_memory_it_leaves_behind_counts_only_afterwards(listing: Listing) -> None:
    holder, used = uuid7(), held(listing, 0.9)
    gpus_claim(gpu_ids=[cards(listing)[0].pk], kind="job", holder=holder, now=T0)
    for minute in range(1, 5):
        say(listing, minute, **used, foreign_processes=1)
    gpus_release(holder=holder, now=T0 + 5 * MINUTE)
    say(listing, 5.1, **used)
    assert not GpuOccupancy.objects.exists(), "the reading may be older than the end of the job"
    for minute in range(6, 9):
        say(listing, minute, **used)
    assert (listing.gpus_total, GpuOccupancy.objects.get().reason) == (1, "memory_held")


def test_no_job_is_placed_on_an_occupied_card(listing: Listing, ravi: User) -> None:
    for minute in range(1, 4):
        say(listing, minute, foreign_processes=1)
    now = T0 + 3 * MINUTE
    funded(ravi, 50_000_000, now=now)
    # Two are counted still, as by a scheduler that looked before the third reading: the count leads to no card.
    Listing.objects.filter(pk=listing.pk).update(gpus_total=2, gpus_free=2)
    ListingIndex.objects.filter(pk=listing.pk).update(gpus_total=2, gpus_free=2)
    two = job_new(ravi, gpu_count=2, now=now)
    assert job_place(job_id=two.pk, now=now) is Placed.CAPACITY
    one = job_new(ravi, gpu_count=1, now=now)
    assert job_place(job_id=one.pk, now=now) is Placed.PLACED
    assert one.attempts.get().rental.rental_gpus.get().gpu_id == cards(listing)[1].pk


def test_a_listing_whose_cards_are_all_occupied_says_so(ravi: User) -> None:
    listing = listing_new(gpus=2)
    at = T0
    for minute in range(1, 4):
        at = T0 + minute * MINUTE
        telemetry = json.dumps([{"uuid": gpu.uuid, "foreign_processes": 1} for gpu in cards(listing)])
        beats_apply([Beat(str(listing.machine_id), at=at, first_at=at, boot_id="boot-1", telemetry=telemetry)], now=at)
        occupancies_judge(now=at)
    hear(listing)
    assert (listing.visible, listing.hidden_reason, listing.hidden_detail) == (
        False,
        "gpu_occupied",
        ["foreign_process"],
    )

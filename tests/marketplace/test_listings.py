"""A listing follows what is known of its machine: shown, or one clear reason why not."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import IntegrityError, connection, transaction

from accounts.models import User
from benchmarks.models import Verdict
from core import clock
from core.errors import Invalid, NotFound
from marketplace.models import Listing, ListingIndex, Rate
from marketplace.selectors import rates_of_machine
from marketplace.services import (
    listing_refresh,
    listing_refresh_gpu,
    listing_refresh_provider,
    listings_recheck,
    listings_refresh,
    rate_set,
)
from providers.models import GpuModel, Machine
from providers.services import gpus_claim, gpus_release, machine_drain, machine_resume, schedule_set
from reliability.models import MachineHealth
from tests.factories.marketplace import MODEL, listing_new, machine_new, measure, provider_new
from tests.marketplace.conftest import At

pytestmark = pytest.mark.django_db


def fresh(listing: Listing) -> Listing:
    listing_refresh(listing.machine_id)
    return Listing.objects.get(pk=listing.pk)


def why(machine: Machine) -> str:
    listings_refresh(machine_id=machine.pk, now=clock.now())
    return Listing.objects.get(machine=machine).hidden_reason


def test_a_machine_in_order_with_a_rate_is_shown(ada: User) -> None:
    listing = listing_new(gpus=2)
    assert (listing.visible, listing.hidden_reason) == (True, "")
    assert (listing.gpus_total, listing.gpus_free, listing.rate_micro) == (2, 2, 400_000)
    assert listing.performance_index is not None
    row = ListingIndex.objects.get(pk=listing.pk)
    assert (row.rentable, row.rate_micro, row.rank, row.gpus_free) == (True, 400_000, listing.rank, 2)


def test_a_new_machine_names_each_next_step_in_turn() -> None:
    provider = provider_new()
    machine = machine_new(provider, confirmed=False, online=False, measured=False)
    assert why(machine) == "not_confirmed"
    machine = machine_new(provider, online=False, measured=False)
    assert why(machine) == "machine_offline"
    machine = machine_new(provider, measured=False)
    assert why(machine) == "benchmark_missing"
    measure(machine)
    assert why(machine) == "no_rate"
    rate_set(
        provider=provider, gpu_model=GpuModel.objects.get(slug=MODEL), rate_micro=380_000, actor=None, now=clock.now()
    )
    assert why(machine) == ""


def test_below_the_minimum_it_says_which_figures() -> None:
    machine = machine_new(provider_new(), quality=0.3)
    listings_refresh(machine_id=machine.pk, now=clock.now())
    listing = Listing.objects.get(machine=machine)
    assert (listing.visible, listing.hidden_reason) == (False, "benchmark_below_minimum")
    assert any("fp16" in code for code in listing.hidden_detail)
    assert listing.gpus_total == 0


def test_it_goes_with_the_machine_and_comes_back() -> None:
    listing = listing_new()
    machine = machine_drain(machine=listing.machine, actor=None, now=clock.now())
    assert fresh(listing).hidden_reason == "draining"
    assert not ListingIndex.objects.get(pk=listing.pk).rentable
    machine_resume(machine=machine, actor=None, now=clock.now())
    assert fresh(listing).visible
    MachineHealth.objects.filter(machine=machine).update(state="offline")
    assert fresh(listing).hidden_reason == "machine_offline"


def test_a_suspended_provider_hides_all_of_its_machines() -> None:
    listing = listing_new()
    provider = listing.provider
    type(provider).objects.filter(pk=provider.pk).update(status="suspended")
    listing_refresh_provider(provider.pk)
    assert Listing.objects.get(pk=listing.pk).hidden_reason == "provider_suspended"


def test_a_verdict_about_one_gpu_reaches_its_listing() -> None:
    listing = listing_new(gpus=2)
    gpu = listing.machine.gpus.order_by("pk")[0]
    last = Verdict.objects.get(gpu=gpu)
    Verdict.objects.create(
        gpu=gpu,
        run=last.run,
        passed=False,
        meets_minimum=False,
        simulated=True,
        decided_at=clock.now() + timedelta(seconds=1),
        decided_by="system",
    )
    listing_refresh_gpu(gpu.pk)
    listing.refresh_from_db()
    assert (listing.visible, listing.gpus_total) == (True, 1)


def test_the_window_closes_and_opens_by_itself() -> None:
    listing = listing_new()
    now = clock.now()
    # A window of one hour that opens in two hours, every day.
    opens = (now + timedelta(hours=2)).replace(minute=0)
    window = {
        "days": [0, 1, 2, 3, 4, 5, 6],
        "start": f"{opens:%H}:00",
        "end": f"{opens + timedelta(hours=1):%H}:00",
    }
    schedule_set(provider=listing.provider, zone="UTC", always_on=False, windows=[window], actor=None, now=now)
    hidden = fresh(listing)
    assert hidden.hidden_reason == "outside_schedule"
    assert hidden.recheck_at == opens.replace(second=0, microsecond=0)
    assert listings_recheck(now=hidden.recheck_at - timedelta(seconds=1)) == 0
    assert listings_recheck(now=hidden.recheck_at) == 1
    shown = Listing.objects.get(pk=listing.pk)
    assert shown.visible
    assert shown.open_until == hidden.recheck_at + timedelta(hours=1)
    assert listings_recheck(now=shown.open_until) == 1
    assert not Listing.objects.get(pk=listing.pk).visible


def test_refreshing_twice_changes_nothing(at: At) -> None:
    listing = listing_new()
    now = at(0)
    before = list(Listing.objects.values()), list(ListingIndex.objects.values())
    listings_refresh(machine_id=listing.machine_id, now=now)
    once = list(Listing.objects.values()), list(ListingIndex.objects.values())
    listings_refresh(machine_id=listing.machine_id, now=now)
    assert (list(Listing.objects.values()), list(ListingIndex.objects.values())) == once
    before[0][0]["updated_at"] = now
    before[0][0]["rank"] = once[0][0]["rank"]
    assert before[0] == once[0]


def test_a_claimed_gpu_is_not_free() -> None:
    listing = listing_new(gpus=2)
    gpu = listing.machine.gpus.order_by("pk")[0]
    gpus_claim(gpu_ids=[gpu.pk], kind="benchmark", holder=listing.pk, now=clock.now())
    assert fresh(listing).gpus_free == 1


def test_claims_that_nobody_told_of_are_noticed_within_a_minute() -> None:
    listing = listing_new(gpus=2)
    gpu, now = listing.machine.gpus.order_by("pk")[0], clock.now()
    assert listings_recheck(now=now) == 0
    gpus_claim(gpu_ids=[gpu.pk], kind="benchmark", holder=listing.pk, now=now)
    assert listings_recheck(now=now) == 1
    assert Listing.objects.get(pk=listing.pk).gpus_free == 1
    gpus_release(holder=listing.pk, now=now)
    assert listings_recheck(now=now) == 1
    assert ListingIndex.objects.get(pk=listing.pk).gpus_free == 2
    assert listings_recheck(now=now) == 0


class TestRates:
    def test_a_price_is_history_and_the_newest_counts(self, at: At) -> None:
        listing = listing_new(rate_micro=400_000)
        provider, model = listing.provider, listing.gpu_model
        rate_set(
            provider=provider, gpu_model=model, machine=listing.machine, rate_micro=500_000, actor=None, now=at(100)
        )
        assert [rate.rate_micro for rate in Rate.objects.order_by("set_at")] == [400_000, 500_000]
        assert Listing.objects.get(pk=listing.pk).rate_micro == 500_000
        assert ListingIndex.objects.get(pk=listing.pk).rate_micro == 500_000

    def test_the_same_price_again_writes_nothing(self, at: At) -> None:
        listing = listing_new(rate_micro=400_000)
        rate_set(
            provider=listing.provider,
            gpu_model=listing.gpu_model,
            machine=listing.machine,
            rate_micro=400_000,
            actor=None,
            now=at(100),
        )
        assert Rate.objects.count() == 1

    def test_a_machines_exception_goes_before_the_models_price_until_taken_back(self, at: At) -> None:
        provider = provider_new()
        one, other = machine_new(provider), machine_new(provider)
        model = GpuModel.objects.get(slug=MODEL)
        rate_set(provider=provider, gpu_model=model, rate_micro=300_000, actor=None, now=at(1))
        rate_set(provider=provider, gpu_model=model, machine=one, rate_micro=900_000, actor=None, now=at(2))
        rate_set(provider=provider, gpu_model=model, rate_micro=350_000, actor=None, now=at(3))

        def rates() -> list[int]:
            return [
                rates_of_machine(provider_id=provider.pk, machine_id=machine.pk)[model.pk] for machine in (one, other)
            ]

        assert rates() == [900_000, 350_000]
        rate_set(provider=provider, gpu_model=model, machine=one, rate_micro=None, actor=None, now=at(4))
        assert rates() == [350_000, 350_000]
        assert Listing.objects.get(machine=one).rate_micro == 350_000

    @pytest.mark.parametrize("rate", [0, 99, 1_000_000_001, None])
    def test_a_bad_price_moves_nothing(self, rate: int | None, at: At) -> None:
        listing = listing_new()
        with pytest.raises(Invalid) as refusal:
            rate_set(provider=listing.provider, gpu_model=listing.gpu_model, rate_micro=rate, actor=None, now=at(1))
        assert list(refusal.value.fields) == ["rate"]
        assert Rate.objects.count() == 1

    def test_nobody_prices_anothers_machine(self, at: At) -> None:
        listing, other = listing_new(), provider_new()
        with pytest.raises(NotFound):
            rate_set(
                provider=other,
                gpu_model=listing.gpu_model,
                machine=listing.machine,
                rate_micro=1_000,
                actor=None,
                now=at(1),
            )
        assert Listing.objects.get(pk=listing.pk).rate_micro == 400_000

    def test_history_cannot_be_rewritten(self) -> None:
        listing_new()
        for statement in ("UPDATE marketplace_rate SET rate_micro = 1000", "DELETE FROM marketplace_rate"):
            with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(statement)

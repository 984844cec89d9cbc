"""Market prices and ranks: one vote per provider, silence under five, only what changed is written."""

from __future__ import annotations

from decimal import Decimal

import pytest

from marketplace.models import Listing, ListingIndex, MarketPrice
from marketplace.selectors import rank_reason
from marketplace.services import listings_rank
from providers.models import GpuModel
from tests.factories.marketplace import listing_new, provider_new
from tests.marketplace.conftest import At

pytestmark = pytest.mark.django_db


def test_prices_are_compared_once_five_providers_ask(at: At) -> None:
    cheap = [listing_new(provider_new(), rate_micro=rate) for rate in (200_000, 300_000, 400_000, 500_000)]
    listings_rank(now=at(1))
    assert MarketPrice.objects.count() == 0
    why = rank_reason(Listing.objects.get(pk=cheap[0].pk))
    assert why is not None
    assert why.factors.median_micro is None
    dear = listing_new(provider_new(), rate_micro=600_000)
    listings_rank(now=at(3600))
    world = MarketPrice.objects.get(region="")
    assert (world.p25_micro, world.median_micro, world.p75_micro, world.providers) == (300_000, 400_000, 500_000, 5)
    first, last = (Listing.objects.get(pk=listing.pk) for listing in (cheap[0], dear))
    assert first.rank > last.rank
    assert ListingIndex.objects.get(pk=first.pk).rank == first.rank
    reason = rank_reason(first)
    assert reason is not None
    assert (reason.factors.price, reason.place, reason.of) == (Decimal("1.5"), 1, 5)


def test_a_second_beat_in_the_quarter_does_nothing(at: At) -> None:
    listing_new()
    listings_rank(now=at(0))
    Listing.objects.update(rank=1)
    assert listings_rank(now=at(0)) == 0
    assert Listing.objects.get().rank == 1
    assert listings_rank(now=at(3600)) == 1


def test_figures_are_written_when_they_change_only(at: At) -> None:
    for rate in (1, 2, 3, 4, 5):
        listing_new(provider_new(), rate_micro=rate * 100_000)
    listings_rank(now=at(0))
    written = MarketPrice.objects.count()
    listings_rank(now=at(3600))
    assert MarketPrice.objects.count() == written
    assert GpuModel.objects.filter(pk=MarketPrice.objects.filter(region="").get().gpu_model_id).exists()


def test_a_new_listing_has_a_rank_at_once() -> None:
    listing = listing_new()
    assert listing.rank // 1_000 == 7_000

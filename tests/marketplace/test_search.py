"""Search: filters, orders, pages that neither skip nor repeat, cursors that cannot be forged, a fixed number of queries."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction
from pytest_django import DjangoAssertNumQueries

from core.errors import Invalid
from marketplace.models import Listing, ListingIndex
from marketplace.selectors import Filters, filters_read, filters_to_relax, listings_search
from marketplace.selectors import search as search_module
from tests.factories.marketplace import listing_new, provider_new

pytestmark = pytest.mark.django_db

SEARCH_QUERIES = 4
"""Ids, featured ids, rows, count: whatever is found."""


@pytest.fixture(scope="module")
def market(django_db_setup: None, django_db_blocker: Any) -> Iterator[dict[str, Listing]]:
    """Four listings, built once: the tests run in savepoints of this transaction, which is rolled back at the end."""
    with django_db_blocker.unblock(), transaction.atomic():
        yield _market()
        transaction.set_rollback(True)


def _market() -> dict[str, Listing]:
    german, french = provider_new(country="DE"), provider_new(country="FR", tier="enterprise")
    american = provider_new(country="US", commitment=12)
    return {
        "l4": listing_new(german, rate_micro=300_000, gpus=1),
        "l4 big": listing_new(german, rate_micro=500_000, gpus=4),
        "h100": listing_new(french, rate_micro=2_500_000, gpus=2, model="h100-sxm-80gb"),
        "4090": listing_new(american, rate_micro=350_000, gpus=1, model="rtx-4090-24gb"),
    }


def names(market: dict[str, Listing], listings: list[Listing]) -> list[str]:
    known = {listing.pk: name for name, listing in market.items()}
    return [known[listing.pk] for listing in listings]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"l4", "l4 big", "h100", "4090"}),
        ({"model": "l4-24gb"}, {"l4", "l4 big"}),
        ({"gpus": "2"}, {"l4 big", "h100"}),
        ({"memory_gb": "48"}, {"h100"}),
        ({"memory_gb": "24"}, {"l4", "l4 big", "h100", "4090"}),
        ({"max_price": "0.35"}, {"l4", "4090"}),
        ({"region": "north-america"}, {"4090"}),
        ({"country": "fr"}, {"h100"}),
        ({"tier": "community"}, {"l4", "l4 big", "4090"}),
        ({"reliability": "50"}, set()),
        ({"model": "l4-24gb", "memory_gb": "80"}, set()),
    ],
)
def test_each_filter(market: dict[str, Listing], given: dict[str, str], expected: set[str]) -> None:
    page = listings_search(filters_read(given))
    assert set(names(market, page.listings)) == expected
    assert page.count == len(expected)


def test_orders(market: dict[str, Listing]) -> None:
    Listing.objects.filter(pk=market["l4"].pk).update(reliability=Decimal(90))
    ListingIndex.objects.filter(pk=market["l4"].pk).update(reliability=Decimal(90))
    by_price = names(market, listings_search(Filters(sort="price")).listings)
    assert by_price == ["l4", "4090", "l4 big", "h100"]
    assert names(market, listings_search(Filters(sort="reliability")).listings)[0] == "l4"
    ranks = [listing.rank for listing in listings_search(Filters()).listings]
    assert ranks == sorted(ranks, reverse=True)


@pytest.mark.parametrize("sort", ["rank", "price", "performance", "reliability"])
@pytest.mark.parametrize("memory", [None, 24])
def test_pages_neither_skip_nor_repeat(market: dict[str, Listing], sort: str, memory: int | None) -> None:
    filters = Filters(sort=sort, memory_gb=memory)
    whole = [listing.pk for listing in listings_search(filters).listings]
    seen: list[UUID] = []
    cursor: str | None = ""
    while cursor is not None:
        page = listings_search(filters, cursor=cursor, size=1)
        seen += [listing.pk for listing in page.listings]
        cursor = page.next_cursor
    assert seen == whole
    assert len(set(seen)) == 4


def test_a_cursor_that_was_changed_or_belongs_elsewhere_is_refused(market: dict[str, Listing]) -> None:
    cursor = listings_search(Filters(), size=1).next_cursor
    assert cursor is not None
    flipped = ("A" if cursor[-1] != "A" else "B").join([cursor[:-1], ""])
    for forged in (flipped, "zzz", cursor + "A", "x" * 600):
        with pytest.raises(Invalid) as refusal:
            listings_search(Filters(), cursor=forged)
        assert list(refusal.value.fields) == ["cursor"]
    with pytest.raises(Invalid):
        listings_search(Filters(sort="price"), cursor=cursor)


def test_counts_stop(market: dict[str, Listing], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_module, "COUNT_MAX", 2)
    page = listings_search(Filters())
    assert (page.count, page.count_capped) == (3, True)


def test_enterprise_stands_on_top_labelled_and_in_its_place(market: dict[str, Listing]) -> None:
    page = listings_search(Filters())
    assert names(market, page.featured) == ["h100"]
    assert "h100" in names(market, page.listings)
    assert listings_search(Filters(sort="price")).featured == []


def test_hidden_and_taken_listings_are_not_found(market: dict[str, Listing]) -> None:
    ListingIndex.objects.filter(pk=market["l4"].pk).update(gpus_free=0)
    ListingIndex.objects.filter(pk=market["4090"].pk).update(rentable=False)
    assert set(names(market, listings_search(Filters()).listings)) == {"l4 big", "h100"}


def test_an_empty_result_says_what_to_relax(market: dict[str, Listing]) -> None:
    relax = filters_to_relax(filters_read({"model": "l4-24gb", "country": "US", "max_price": "0.40"}))
    assert set(relax) == {"model", "country"}
    assert relax["country"].query() == {"model": "l4-24gb", "max_price": "0.40"}


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"model": "gtx-750"}, "model"),
        ({"gpus": "0"}, "gpus"),
        ({"gpus": "many"}, "gpus"),
        ({"max_price": "-1"}, "max_price"),
        ({"max_price": "cheap"}, "max_price"),
        ({"region": "mars"}, "region"),
        ({"country": "XX"}, "country"),
        ({"reliability": "NaN"}, "reliability"),
        ({"reliability": "101"}, "reliability"),
        ({"tier": "gold"}, "tier"),
        ({"sort": "random"}, "sort"),
    ],
)
def test_a_bad_filter_is_named(given: dict[str, str], field: str) -> None:
    with pytest.raises(Invalid) as refusal:
        filters_read(given)
    assert list(refusal.value.fields) == [field]


@pytest.mark.parametrize("given", [{}, {"country": "DE"}, {"max_price": "0.35"}])
def test_queries_do_not_grow_with_what_is_found(
    market: dict[str, Listing], given: dict[str, Any], django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    filters = filters_read(given)
    with django_assert_num_queries(SEARCH_QUERIES):
        page = listings_search(filters)
        assert [(row.gpu_model.name, row.provider.party.handle) for row in page.listings]

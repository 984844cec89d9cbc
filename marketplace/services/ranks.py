"""Market prices and ranks, every quarter of an hour: only what changed is written."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from uuid import UUID

from django.db import connection, transaction

from core.slots import slot_claim
from marketplace import ranking
from marketplace.models import Listing, MarketPrice
from marketplace.pricing import WORLD, Quartiles, nearest, quartiles
from marketplace.selectors.rates import market_prices

PAGE = 5_000
RANK_MINUTES = 15

_WRITE = """
WITH moved AS (SELECT * FROM unnest(%s::uuid[], %s::int[]) AS each (id, rank)),
     rows AS (UPDATE marketplace_listing l SET rank = moved.rank FROM moved WHERE l.id = moved.id RETURNING l.id, l.rank)
UPDATE marketplace_listingindex i SET rank = rows.rank FROM rows WHERE i.listing_id = rows.id
"""


def listings_rank(*, now: datetime) -> int:
    """Compute market prices and every visible listing's rank; returns how many ranks were written.

    Ranks that moved by less than a percent stay, except on a new day, when ties take turns.
    """
    slot = f"{now:%Y-%m-%dT%H:}{now.minute // RANK_MINUTES * RANK_MINUTES:02}"
    with transaction.atomic():
        if not slot_claim("marketplace.listings_rank", slot, now=now):
            return 0
        market_prices_write(now=now)
    written = 0
    for page in _pages():
        written += _rank_page(page, now)
    return written


def market_prices_write(*, now: datetime) -> int:
    """Write a dated MarketPrice row for each model and region (and the world) whose figures changed; returns how many."""
    asks: dict[tuple[UUID, str], list[tuple[UUID, int]]] = defaultdict(list)
    visible = Listing.objects.filter(visible=True)
    for model, region, provider, rate in visible.values_list("gpu_model_id", "region", "provider_id", "rate_micro"):
        assert rate is not None  # visible listings have one (a law)
        asks[model, region].append((provider, rate))
        asks[model, WORLD].append((provider, rate))
    latest: dict[tuple[UUID, str], MarketPrice] = {}
    ordered = MarketPrice.objects.order_by("gpu_model_id", "region", "-computed_at", "-pk")
    for row in ordered.distinct("gpu_model_id", "region"):
        latest[row.gpu_model_id, row.region] = row
    fresh = [
        price
        for key in sorted({*asks, *latest})
        if (price := _price_changed(key, quartiles(asks.get(key, [])), latest.get(key), now)) is not None
    ]
    MarketPrice.objects.bulk_create(fresh)
    return len(fresh)


def _price_changed(
    key: tuple[UUID, str], found: Quartiles | None, old: MarketPrice | None, now: datetime
) -> MarketPrice | None:
    figures = (found.p25_micro, found.median_micro, found.p75_micro, found.providers) if found else (None,) * 3 + (0,)
    before = (old.p25_micro, old.median_micro, old.p75_micro, old.providers) if old else (None,) * 3 + (0,)
    if figures == before:
        return None
    model, region = key
    p25, median, p75, providers = figures
    return MarketPrice(
        gpu_model_id=model,
        region=region,
        p25_micro=p25,
        median_micro=median,
        p75_micro=p75,
        providers=providers or 0,
        computed_at=now,
        created_at=now,
    )


def _pages() -> Iterator[list[Listing]]:
    """Visible listings by id: keyset pages, as PgBouncer in transaction mode knows no server-side cursors."""
    last: UUID | None = None
    fields = (
        "id",
        "gpu_model_id",
        "region",
        "rate_micro",
        "reliability",
        "evidence_hours",
        "commitment_months",
        "rank",
    )
    while True:
        rows = Listing.objects.filter(visible=True).order_by("pk").only(*fields)
        page = list((rows if last is None else rows.filter(pk__gt=last))[:PAGE])
        if not page:
            return
        yield page
        last = page[-1].pk


def _rank_page(page: list[Listing], now: datetime) -> int:
    medians = market_prices({listing.gpu_model_id for listing in page})
    ids: list[str] = []
    ranks: list[int] = []
    for listing in page:
        assert listing.rate_micro is not None  # visible listings have one (a law)
        around = nearest(medians.get(listing.gpu_model_id, {}), listing.region)
        steps = ranking.factors(
            score=listing.reliability,
            rate_micro=listing.rate_micro,
            median_micro=around[1].median_micro if around else None,
            commitment_months=listing.commitment_months,
            evidence_hours=listing.evidence_hours,
        ).steps
        if not ranking.moved(listing.rank, steps):
            steps = ranking.steps_of(listing.rank)
        rank = ranking.stored(steps, listing.pk, now.date())
        if rank != listing.rank:
            ids.append(str(listing.pk))
            ranks.append(rank)
    if ids:
        with connection.cursor() as cursor:
            cursor.execute(_WRITE, [ids, ranks])
    return len(ids)

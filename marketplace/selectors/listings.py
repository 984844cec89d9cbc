from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from core.errors import NotFound
from marketplace import ranking
from marketplace.models import Listing, Rate
from marketplace.pricing import nearest
from marketplace.selectors.rates import market_prices
from providers.models import Provider


def listing_of(listing_id: UUID) -> Listing:
    """A listing anybody may see: one that is offered now. Raises NotFound."""
    rows = Listing.objects.select_related("gpu_model", "machine", "provider__party")
    listing = rows.filter(pk=listing_id, visible=True).first()
    if listing is None:
        raise NotFound("There is no such listing, or it is not offered now.")
    return listing


@dataclass(frozen=True)
class RankReason:
    """Why a listing ranks where it does. ``place`` of ``of``: among visible listings of its model."""

    factors: ranking.Factors
    median_region: str
    place: int
    of: int


def rank_reason(listing: Listing) -> RankReason | None:
    """The factors of a listing's rank as they stand; None while it has no rate."""
    if listing.rate_micro is None:
        return None
    around = nearest(market_prices([listing.gpu_model_id]).get(listing.gpu_model_id, {}), listing.region)
    found = ranking.factors(
        score=listing.reliability,
        rate_micro=listing.rate_micro,
        median_micro=around[1].median_micro if around else None,
        commitment_months=listing.commitment_months,
        evidence_hours=listing.evidence_hours,
    )
    rivals = Listing.objects.filter(visible=True, gpu_model=listing.gpu_model_id)
    return RankReason(
        factors=found,
        median_region=around[0] if around else "",
        place=rivals.filter(rank__gt=listing.rank).count() + 1,
        of=rivals.count(),
    )


def what_if_place(listing: Listing, rate_micro: int) -> tuple[int, int] | None:
    """(place, of how many) the listing would have among its model at another rate; None without any listing to compare."""
    around = nearest(market_prices([listing.gpu_model_id]).get(listing.gpu_model_id, {}), listing.region)
    steps = ranking.factors(
        score=listing.reliability,
        rate_micro=rate_micro,
        median_micro=around[1].median_micro if around else None,
        commitment_months=listing.commitment_months,
        evidence_hours=listing.evidence_hours,
    ).steps
    rivals = Listing.objects.filter(visible=True, gpu_model=listing.gpu_model_id).exclude(pk=listing.pk)
    ahead = rivals.filter(rank__gte=(steps + 1) * ranking.TIES).count()
    return ahead + 1, rivals.count() + 1


def listings_of_provider(provider: Provider) -> list[Listing]:
    """All listings of a provider, shown or hidden, by model and machine."""
    rows = Listing.objects.filter(provider=provider).select_related("gpu_model", "machine")
    return list(rows.order_by("gpu_model__name", "machine__name", "pk"))


def price_history(listing: Listing, *, since: datetime) -> list[Rate]:
    """The rates that applied to this listing since an instant, newest first."""
    rows = Rate.objects.filter(provider=listing.provider_id, gpu_model=listing.gpu_model_id, set_at__gte=since)
    return [row for row in rows.order_by("-set_at", "-pk") if row.machine_id in (None, listing.machine_id)]

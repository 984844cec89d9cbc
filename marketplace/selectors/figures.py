"""What the front page shows of the market as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast
from uuid import UUID

from django.core.cache import cache
from django.db.models import Min, Sum

from marketplace.models import Listing

FIGURES_SECONDS = 15
"""How old the figures may be: they are a picture of the market, and every visitor of the front page asks for them."""
PRICES_SHOWN = 12


@dataclass(frozen=True)
class ModelPrice:
    """One GPU model on the market now; ``lowest_micro`` in micro-USDC per GPU-hour."""

    gpu_model_id: UUID
    slug: str
    name: str
    gpus_total: int
    gpus_free: int
    lowest_micro: int


@dataclass(frozen=True)
class MarketFigures:
    """Counts over visible listings: machines that are online, measured, priced and open."""

    gpus_online: int
    gpus_free: int
    models: int
    countries: int
    prices: list[ModelPrice]


def market_figures() -> MarketFigures:
    """The market at most FIGURES_SECONDS ago; all zero and no price while nothing is listed."""
    return cast(MarketFigures, cache.get_or_set("marketplace:figures", _figures, FIGURES_SECONDS))


def _figures() -> MarketFigures:
    visible = Listing.objects.filter(visible=True)
    rows = (
        visible.values("gpu_model_id", "gpu_model__slug", "gpu_model__name")
        .annotate(total=Sum("gpus_total"), free=Sum("gpus_free"), lowest=Min("rate_micro"))
        .order_by("-free", "lowest", "gpu_model__slug")
    )
    prices = [
        ModelPrice(
            gpu_model_id=row["gpu_model_id"],
            slug=row["gpu_model__slug"],
            name=row["gpu_model__name"],
            gpus_total=row["total"],
            gpus_free=row["free"],
            lowest_micro=row["lowest"],
        )
        for row in rows
    ]
    return MarketFigures(
        gpus_online=sum(price.gpus_total for price in prices),
        gpus_free=sum(price.gpus_free for price in prices),
        models=len(prices),
        countries=visible.values("country").distinct().count(),
        prices=prices[:PRICES_SHOWN],
    )

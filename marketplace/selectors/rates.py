from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from django.db.models import Q

from marketplace.models import MarketPrice, Rate
from marketplace.pricing import WORLD, Quartiles, nearest


def rates_of_machine(*, provider_id: UUID, machine_id: UUID) -> dict[UUID, int]:
    """{GPU model: rate now} for a machine: its own exception where there is one, else the provider's rate for the model."""
    rows = (
        Rate.objects.filter(Q(machine__isnull=True) | Q(machine=machine_id), provider=provider_id)
        .order_by("gpu_model_id", "machine_id", "-set_at", "-pk")
        .distinct("gpu_model_id", "machine_id")
    )
    own = {row.gpu_model_id: row.rate_micro for row in rows if row.machine_id is not None}
    general = {row.gpu_model_id: row.rate_micro for row in rows if row.machine_id is None}
    found: dict[UUID, int] = {}
    for model in {*own, *general}:
        rate = own.get(model) or general.get(model)
        if rate is not None:
            found[model] = rate
    return found


def rate_current(*, provider_id: UUID, gpu_model_id: UUID, machine_id: UUID | None = None) -> Rate | None:
    """The newest row of exactly this series (the provider's, or one machine's)."""
    rows = Rate.objects.filter(provider_id=provider_id, gpu_model_id=gpu_model_id)
    rows = rows.filter(machine__isnull=True) if machine_id is None else rows.filter(machine_id=machine_id)
    return rows.order_by("-set_at", "-pk").first()


def rate_history(*, provider_id: UUID, gpu_model_id: UUID, limit: int = 50) -> list[Rate]:
    rows = Rate.objects.filter(provider_id=provider_id, gpu_model_id=gpu_model_id).select_related("machine", "set_by")
    return list(rows.order_by("-set_at", "-pk")[:limit])


def market_prices(model_ids: Iterable[UUID]) -> dict[UUID, dict[str, Quartiles]]:
    """{model: {region or "" for the world: quartiles}} as they stand; where fewer than five providers ask, nothing."""
    rows = (
        MarketPrice.objects.filter(gpu_model_id__in=list(model_ids))
        .order_by("gpu_model_id", "region", "-computed_at", "-pk")
        .distinct("gpu_model_id", "region")
    )
    found: dict[UUID, dict[str, Quartiles]] = {}
    for row in rows:
        if row.median_micro is not None and row.p25_micro is not None and row.p75_micro is not None:
            figures = Quartiles(row.p25_micro, row.median_micro, row.p75_micro, row.providers)
            found.setdefault(row.gpu_model_id, {})[row.region] = figures
    return found


def price_suggestion(*, gpu_model_id: UUID, region: str) -> tuple[str, Quartiles] | None:
    """(region or "" for the world, what others ask there), or None while fewer than five providers ask anywhere."""
    return nearest(market_prices([gpu_model_id]).get(gpu_model_id, {}), region or WORLD)

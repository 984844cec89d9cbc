"""What moves a provider's earnings, as it stands: price against the market, place, uptime and score, hours, demand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import Count, F, IntegerField, Min, OuterRef, Subquery, Sum
from django.db.models.functions import Coalesce

from core.money import charge_micro
from core.spans import length
from marketplace.models import Listing, Rental
from marketplace.pricing import nearest
from marketplace.selectors.jobs import rental_seconds
from marketplace.selectors.rates import market_prices
from providers.models import GpuModel, Machine, Provider
from providers.schedules import ALWAYS_ON, intervals
from providers.selectors import schedules_of
from reliability.selectors import score_parts

WEEK = timedelta(days=7)
WEEK_HOURS = 168


@dataclass(frozen=True, slots=True)
class ModelFactors:
    """One GPU model of a provider. Rates in micro-USDC per GPU-hour; what is not known is None.

    place of rivals: of its best visible listing among all visible ones of the model. rented of offered: GPUs of this model
    on the whole market now.
    """

    model: GpuModel
    rate_micro: int | None
    suggested_micro: int | None
    place: int | None
    rivals: int
    rented: int
    offered: int

    @property
    def percent_of_suggested(self) -> int | None:
        """What it asks, of what is suggested; 100 is the same."""
        if self.rate_micro is None or not self.suggested_micro:
            return None
        return round(100 * self.rate_micro / self.suggested_micro)

    @property
    def demand_percent(self) -> int | None:
        return round(100 * self.rented / self.offered) if self.offered else None


@dataclass(frozen=True, slots=True)
class Factors:
    """uptime and score: percent, None while unknown. offered_hours of possible_hours: GPU-hours of the coming week that the
    schedules open."""

    models: Sequence[ModelFactors]
    score: Decimal | None
    uptime: Decimal | None
    offered_hours: int
    possible_hours: int


def factors_of(provider: Provider, *, now: datetime) -> Factors:
    """A fixed number of queries, however many machines and models there are."""
    score = score_parts(provider)
    offered, possible = _hours(provider, now)
    return Factors(_models(provider), score.s if score else None, score.u if score else None, offered, possible)


def _models(provider: Provider) -> list[ModelFactors]:
    ahead = Listing.objects.filter(visible=True, gpu_model=OuterRef("gpu_model"), rank__gt=OuterRef("rank"))
    counted = ahead.order_by().values("gpu_model").annotate(number=Count("pk")).values("number")
    own = Listing.objects.filter(provider=provider).exclude(gpus_total=0, visible=False, rate_micro=None)
    mine = list(own.order_by("gpu_model__name").values("gpu_model").annotate(rate=Min("rate_micro")).distinct())
    ids = [row["gpu_model"] for row in mine]
    shown = Listing.objects.filter(provider=provider, visible=True, gpu_model__in=ids).annotate(
        place=Coalesce(Subquery(counted, output_field=IntegerField()), 0) + 1
    )
    places: dict[object, int] = {}
    for listing in shown:
        places[listing.gpu_model_id] = min(listing.place, places.get(listing.gpu_model_id, listing.place))
    market = (
        Listing.objects.filter(visible=True, gpu_model__in=ids)
        .order_by()
        .values("gpu_model")
        .annotate(rivals=Count("pk"), offered=Sum("gpus_total"), rented=Sum(F("gpus_total") - F("gpus_free")))
    )
    around = {row["gpu_model"]: row for row in market}
    prices, models = market_prices(ids), GpuModel.objects.in_bulk(ids)
    found = []
    for row in mine:
        key = row["gpu_model"]
        suggested = nearest(prices.get(key, {}), provider.region)
        there = around.get(key, {"rivals": 0, "offered": 0, "rented": 0})
        found.append(
            ModelFactors(
                model=models[key],
                rate_micro=row["rate"],
                suggested_micro=suggested[1].median_micro if suggested else None,
                place=places.get(key),
                rivals=there["rivals"],
                rented=there["rented"],
                offered=there["offered"],
            )
        )
    return found


def _hours(provider: Provider, now: datetime) -> tuple[int, int]:
    machines = list(
        Machine.objects.filter(provider=provider)
        .exclude(status__in=("retired", "revoked"))
        .annotate(cards=Coalesce(Subquery(_cards()), 0))
    )
    schedules = schedules_of(machines, now)
    opened: dict[object, int] = {ALWAYS_ON: WEEK_HOURS}
    offered = 0
    for machine in machines:
        schedule = schedules[machine.pk]
        if schedule not in opened:
            spans = list(intervals(schedule, now, now + WEEK))
            opened[schedule] = WEEK_HOURS if schedule.always_on else int(length(spans) / timedelta(hours=1))
        offered += opened[schedule] * machine.cards
    return offered, WEEK_HOURS * sum(machine.cards for machine in machines)


def _cards() -> Any:
    listings = Listing.objects.filter(machine=OuterRef("pk")).order_by().values("machine")
    return listings.annotate(total=Sum("gpus_total")).values("total")


def accruing_of(provider: Provider, *, now: datetime) -> tuple[int, int]:
    """(micro-USDC after the fee, jobs) of rentals that run now and are not in the ledger yet: what the next posting brings."""
    total = jobs = 0
    rows = Rental.objects.filter(provider=provider, settled_at__isnull=True, started_at__isnull=False)
    for rental in rows.select_related("attempt"):
        seconds = rental_seconds(rental.attempt, rental, now)
        whole = charge_micro(rate_micro=rental.rate_micro, gpus=rental.gpus, seconds=seconds)
        total += max(0, whole - rental.charged_micro) * (10_000 - rental.fee_bps) // 10_000
        jobs += rental.ended_at is None
    return total, jobs

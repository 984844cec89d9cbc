from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from uuid import UUID

from django.db.models import Count, Min, QuerySet, Sum
from django.db.models.functions import TruncDay

from accounts.models import Party
from billing.models import Account, EarningFreeze, EarningLine, Hold


@dataclass(frozen=True, slots=True)
class GpuEarnings:
    gpu_id: UUID
    gpu_model: str
    amount_micro: int


@dataclass(frozen=True, slots=True)
class ModelEarnings:
    gpu_model: str
    gpus: int
    amount_micro: int


@dataclass(frozen=True, slots=True)
class Earnings:
    """What a provider earned in [since, until), after the fee; the parts add up to the total."""

    since: datetime
    until: datetime
    total_micro: int
    by_gpu: tuple[GpuEarnings, ...]
    by_model: tuple[ModelEarnings, ...]


def earnings_of(party: Party, since: datetime, until: datetime) -> Earnings:
    lines = EarningLine.objects.filter(provider=party, earned_at__gte=since, earned_at__lt=until)
    gpus = (
        lines.values("gpu_id")
        .annotate(gpu_model=Min("gpu_model"), total=Sum("amount_micro"))
        .order_by("-total", "gpu_id")
    )
    models = (
        lines.values("gpu_model")
        .annotate(total=Sum("amount_micro"), gpus=Count("gpu_id", distinct=True))
        .order_by("-total", "gpu_model")
    )
    by_gpu = tuple(GpuEarnings(row["gpu_id"], row["gpu_model"], row["total"]) for row in gpus)
    by_model = tuple(ModelEarnings(row["gpu_model"], row["gpus"], row["total"]) for row in models)
    return Earnings(since, until, sum(row.amount_micro for row in by_gpu), by_gpu, by_model)


def earnings_by_day(party: Party, since: datetime, until: datetime) -> list[tuple[datetime, int]]:
    """(UTC midnight, micro-USDC) of the days on which something was earned."""
    lines = EarningLine.objects.filter(provider=party, earned_at__gte=since, earned_at__lt=until)
    days = lines.annotate(day=TruncDay("earned_at", tzinfo=UTC)).values("day").annotate(total=Sum("amount_micro"))
    return [(row["day"], row["total"]) for row in days.order_by("day")]


@dataclass(frozen=True, slots=True)
class Maturing:
    """``amount_micro`` becomes payable on this UTC day."""

    on: date
    amount_micro: int


def earnings_maturing(party: Party) -> list[Maturing]:
    """Pending earnings by the UTC day on which they mature, soonest first; what is frozen is not among them."""
    unmatured = EarningLine.objects.filter(provider=party, matured_at__isnull=True).exclude(
        rental_id__in=_frozen(party)
    )
    days = unmatured.annotate(day=TruncDay("matures_at", tzinfo=UTC)).values("day").annotate(total=Sum("amount_micro"))
    return [Maturing(row["day"].date(), row["total"]) for row in days.order_by("day")]


@dataclass(frozen=True, slots=True)
class Frozen:
    """What disputes keep where it is: pending earnings that do not mature, and payable ones that are not paid out."""

    pending_micro: int
    payable_micro: int


def frozen_of(party: Party) -> Frozen:
    lines = EarningLine.objects.filter(provider=party, matured_at__isnull=True, rental_id__in=_frozen(party))
    pending = lines.aggregate(total=Sum("amount_micro"))["total"]
    holds = Hold.objects.filter(
        account__owner=party,
        account__kind=Account.Kind.PROVIDER_PAYABLE,
        state=Hold.State.OPEN,
        source__in=EarningFreeze.objects.filter(provider=party, thawed_at__isnull=True).values("source"),
    )
    payable = holds.aggregate(total=Sum("amount_micro"))["total"]
    return Frozen(int(pending or 0), int(payable or 0))


def _frozen(party: Party) -> QuerySet[EarningFreeze, UUID]:
    return EarningFreeze.objects.filter(provider=party, thawed_at__isnull=True).values_list("rental_id", flat=True)


def earnings_total(party: Party, since: datetime, until: datetime) -> int:
    """What a provider earned in [since, until), after the fee."""
    lines = EarningLine.objects.filter(provider=party, earned_at__gte=since, earned_at__lt=until)
    return int(lines.aggregate(total=Sum("amount_micro"))["total"] or 0)

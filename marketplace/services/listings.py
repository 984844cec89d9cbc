"""Listings are derived: whatever changed below, the machine's listings are computed anew from what is stored now.

Running it twice, late or beside its twin gives the same rows. Lock order: the machine's listing name, then its rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from benchmarks.models import Verdict
from benchmarks.selectors import verdict_of
from core import clock
from core.ids import uuid7
from core.locks import lock_name
from core.money import SECONDS_PER_HOUR
from marketplace import ranking, visibility
from marketplace.models import Listing, ListingIndex
from marketplace.pricing import Quartiles, nearest
from marketplace.selectors.gpus import claimed_ids, gpus_sellable
from marketplace.selectors.rates import market_prices, rates_of_machine
from providers import schedules
from providers.models import Gpu, Machine
from providers.selectors import schedule_of
from reliability.models import GpuOccupancy
from reliability.selectors import health_of, occupied_of, score_of

GB = 1_000_000_000
PER_PERFORMANCE_UNKNOWN = 2**62
"""Sorts after every known price per performance."""
RELIABILITY_UNKNOWN = Decimal(-1)


def listing_refresh(machine_id: UUID) -> None:
    """News about a machine (flip, state, inventory, schedule): compute its listings anew."""
    listings_refresh(machine_id=machine_id, now=clock.now())


def listing_refresh_gpu(gpu_id: UUID) -> None:
    """News about one GPU (a benchmark's verdict)."""
    machine_id = Gpu.objects.filter(pk=gpu_id).values_list("machine_id", flat=True).first()
    if machine_id is not None:
        listings_refresh(machine_id=machine_id, now=clock.now())


def listing_refresh_provider(provider_id: UUID) -> None:
    """News about a provider (state, score, schedule): each of its machines."""
    now = clock.now()
    for machine_id in Machine.objects.filter(provider_id=provider_id).order_by("pk").values_list("pk", flat=True):
        listings_refresh(machine_id=machine_id, now=now)


_DRIFTED = """
WITH taken AS (
    SELECT gpu.machine_id, gpu.model_id, count(*) AS gpus FROM providers_gpuclaim claim
    JOIN providers_gpu gpu ON gpu.id = claim.gpu_id AND gpu.status = 'active'
    WHERE claim.live GROUP BY gpu.machine_id, gpu.model_id
)
SELECT DISTINCT listing.machine_id FROM marketplace_listing listing
LEFT JOIN taken ON taken.machine_id = listing.machine_id AND taken.model_id = listing.gpu_model_id
WHERE (listing.gpus_free < listing.gpus_total OR taken.gpus IS NOT NULL)
    AND listing.gpus_free <> greatest(listing.gpus_total - coalesce(taken.gpus, 0), 0)
LIMIT %s
"""


def listings_recheck(*, now: datetime, limit: int = 500) -> int:
    """Refresh machines whose schedule opens or closes about now, or whose free GPUs were claimed or released by others
    (a benchmark that failed tells nobody); returns how many."""
    due = Listing.objects.filter(recheck_at__lte=now).order_by("recheck_at").values_list("machine_id", flat=True)
    with connection.cursor() as cursor:
        cursor.execute(_DRIFTED, [limit])
        drifted = [row[0] for row in cursor.fetchall()]
    machines = list(dict.fromkeys([*due[:limit], *drifted]))
    for machine_id in machines:
        listings_refresh(machine_id=machine_id, now=now)
    return len(machines)


@dataclass(frozen=True)
class _Machine:
    """Everything a machine's listings share, read once."""

    machine: Machine
    health: str
    score: Decimal | None
    evidence_hours: int | None
    rates: Mapping[UUID, int]
    open_now: bool
    changes_at: datetime | None
    now: datetime


def _read(machine: Machine, now: datetime) -> _Machine:
    health = health_of([machine.pk]).get(machine.pk)
    score = score_of([machine.provider_id]).get(machine.provider_id)
    schedule = schedule_of(machine, now)
    return _Machine(
        machine=machine,
        health=health.state if health else "never",
        score=score.s if score else None,
        evidence_hours=score.evidence_seconds // SECONDS_PER_HOUR if score else None,
        rates=rates_of_machine(provider_id=machine.provider_id, machine_id=machine.pk),
        open_now=schedules.is_open(schedule, now),
        changes_at=schedules.next_change(schedule, now),
        now=now,
    )


def listings_refresh(*, machine_id: UUID, now: datetime) -> list[Listing]:
    """Compute the listings of a machine (one per GPU model it has or had) and their index rows. Nothing if it is unknown."""
    with transaction.atomic():
        lock_name(f"listings:{machine_id}")
        machine = Machine.objects.select_related("provider").filter(pk=machine_id).first()
        if machine is None:
            return []
        # Locked before anything is counted: jobs take and free GPUs under these locks.
        existing = {
            row.gpu_model_id: row
            for row in Listing.objects.filter(machine_id=machine_id).order_by("pk").select_for_update()
        }
        by_model: dict[UUID, list[Gpu]] = defaultdict(list)
        for gpu in Gpu.objects.filter(machine_id=machine_id, model__isnull=False).exclude(status="retired"):
            assert gpu.model_id is not None
            by_model[gpu.model_id].append(gpu)
        shared = _read(machine, now)
        medians = market_prices({*by_model, *existing})
        return [
            _refresh_one(shared, model, by_model.get(model, []), existing.get(model), medians.get(model, {}))
            for model in sorted({*by_model, *existing})
        ]


def _refresh_one(
    shared: _Machine,
    model_id: UUID,
    gpus: Sequence[Gpu],
    listing: Listing | None,
    medians: Mapping[str, Quartiles],
) -> Listing:
    machine, provider = shared.machine, shared.machine.provider
    verdicts = verdict_of([gpu.pk for gpu in gpus])
    occupied = occupied_of(gpu.pk for gpu in gpus)
    facts = [_gpu_facts(gpu, verdicts.get(gpu.pk), occupied.get(gpu.pk)) for gpu in gpus]
    sellable = [gpu for gpu, fact in zip(gpus, facts, strict=True) if fact.sellable]
    rate = shared.rates.get(model_id)
    shown = visibility.decide(
        visibility.Facts(
            provider_status=provider.status,
            machine_status=machine.status,
            health=shared.health,
            degraded=machine.degraded,
            gpus=facts,
            rate_micro=rate,
            open_now=shared.open_now,
            opens_at=None if shared.open_now else shared.changes_at,
        )
    )
    known = [verdicts[gpu.pk] for gpu in sellable]
    values: dict[str, Any] = {
        "provider_id": machine.provider_id,
        "rate_micro": rate,
        "gpus_total": len(sellable),
        "gpus_free": len(sellable) - len(claimed_ids(gpu.pk for gpu in sellable)),
        "visible": shown.visible,
        "hidden_reason": shown.reason,
        "hidden_detail": list(shown.detail),
        "reliability": shared.score,
        "evidence_hours": shared.evidence_hours,
        # Several cards: what a renter may get is the weakest of them.
        "health_percent": _least(verdict.health_percent for verdict in known),
        "performance_index": _least(verdict.performance_index for verdict in known),
        "simulated": machine.simulated,
        "country": machine.country,
        "region": machine.region,
        "tier": provider.tier,
        "commitment_months": provider.commitment_months,
        "disk_gb": None if machine.disk_total_bytes is None else machine.disk_total_bytes // GB,
        "open_until": shared.changes_at if shared.open_now else None,
        "recheck_at": shared.changes_at,
        "updated_at": shared.now,
    }
    return _write(listing, machine.pk, model_id, values, medians)


def _gpu_facts(gpu: Gpu, verdict: Verdict | None, occupied: GpuOccupancy | None) -> visibility.GpuFacts:
    by = occupied.reason if occupied is not None else ""
    if verdict is None:
        return visibility.GpuFacts(gpu.status, None, occupied=by)
    codes = [reason["code"] for reason in verdict.reasons]
    return visibility.GpuFacts(gpu.status, verdict.passed, codes, verdict.in_review, by)


def _least(values: Any) -> Any:
    """The smallest; None when there is none or one is unknown."""
    found = list(values)
    return min(found) if found and None not in found else None


def _write(
    listing: Listing | None,
    machine_id: UUID,
    model_id: UUID,
    values: dict[str, Any],
    medians: Mapping[str, Quartiles],
) -> Listing:
    if listing is None:
        # The id comes first: the rank's tie-breaker needs it.
        listing = Listing(id=uuid7(), machine_id=machine_id, gpu_model_id=model_id, created_at=values["updated_at"])
    for name, value in values.items():
        setattr(listing, name, value)
    listing.rank = _rank(listing, medians)
    listing.save()
    listing_index_write(listing)
    return listing


def _rank(listing: Listing, medians: Mapping[str, Quartiles]) -> int:
    if listing.rate_micro is None:
        return 0
    around = nearest(medians, listing.region)
    found = ranking.factors(
        score=listing.reliability,
        rate_micro=listing.rate_micro,
        median_micro=around[1].median_micro if around else None,
        commitment_months=listing.commitment_months,
        evidence_hours=listing.evidence_hours,
    )
    return ranking.stored(found.steps, listing.pk, listing.updated_at.date())


_INDEX_FIELDS = [field.name for field in ListingIndex._meta.fields if not field.primary_key]


def listing_index_write(listing: Listing) -> None:
    """Bring the narrow search row in line with the listing; a listing without a rate has none."""
    if listing.rate_micro is None:
        ListingIndex.objects.filter(pk=listing.pk).delete()
        return
    index = listing.performance_index
    row = ListingIndex(
        listing=listing,
        gpu_model_id=listing.gpu_model_id,
        rentable=listing.visible,
        gpus_free=listing.gpus_free,
        gpus_total=listing.gpus_total,
        rate_micro=listing.rate_micro,
        per_performance=int(listing.rate_micro * 100 / index) if index else PER_PERFORMANCE_UNKNOWN,
        reliability=RELIABILITY_UNKNOWN if listing.reliability is None else listing.reliability,
        rank=listing.rank,
        country=listing.country,
        region=listing.region,
        tier=listing.tier,
        disk_gb=listing.disk_gb,
        open_until=listing.open_until,
    )
    ListingIndex.objects.bulk_create(
        [row], update_conflicts=True, unique_fields=["listing"], update_fields=_INDEX_FIELDS
    )


def listing_recount(*, listing: Listing) -> int:
    """Count total and free GPUs anew after a claim or a release; the caller holds the listing's lock. Returns free ones."""
    found = gpus_sellable(machine_id=listing.machine_id, gpu_model_id=listing.gpu_model_id)
    return listing_counted(listing=listing, total=len(found), free=sum(each.free for each in found))


def listing_counted(*, listing: Listing, total: int, free: int) -> int:
    """Write down what was counted under the listing's lock. Returns ``free``."""
    if (listing.gpus_total, listing.gpus_free) != (total, free):
        Listing.objects.filter(pk=listing.pk).update(gpus_total=total, gpus_free=free)
        ListingIndex.objects.filter(pk=listing.pk).update(gpus_total=total, gpus_free=free)
        listing.gpus_total, listing.gpus_free = total, free
    return free

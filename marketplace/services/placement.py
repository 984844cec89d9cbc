"""The scheduler: the best-ranked listing that fits, fewest running GPUs first, first come first served for one customer.

Choosing is optimistic, taking is not: everything is checked again under the listing's lock, and the claim is the
database's (one live claim per GPU). Claim, hold, attempt, rental and plan are one transaction: all of it or none.
Lock order: job, listing (with its GPUs' claims), account (the hold), machine (its plan).
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Hashable
from datetime import datetime, timedelta
from enum import Enum
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import Q, Sum

from billing.selectors import fee_bps_at
from billing.services import SpendLimitReached, hold_place, spend_check
from core.errors import Conflict, InsufficientFunds
from core.ids import secret_hash, secret_new, uuid7
from marketplace import pricing
from marketplace.models import Attempt, Job, Listing, ListingIndex, Rental, RentalGpu
from marketplace.models.rental import HOLD_PREFIX
from marketplace.selectors.gpus import gpus_sellable
from marketplace.services.closing import job_end_tell
from marketplace.services.listings import listing_counted, listing_recount
from marketplace.services.plans import attempt_plan
from marketplace.services.stopping import ATTEMPT_KIND
from marketplace.states import JOB, OFFER_SECONDS, QUEUE_SECONDS
from providers.models import Gpu
from providers.services import gpus_claim, plan_put

log = structlog.get_logger(__name__)

TOKEN_PREFIX = "gpxt"
QUEUE_READ = 10_000
CANDIDATES = 8
"""Listings tried per job and pass; if all eight were taken meanwhile, the next pass is seconds away."""
AVOID = timedelta(minutes=10)
"""A machine that just failed a job or did not take it up is not offered the same job again for a while."""


class Placed(Enum):
    """What became of one queued job in one pass."""

    PLACED = "placed"
    CAPACITY = "capacity"
    FUNDS = "funds"
    LIMIT = "limit"
    FAILED = "failed"
    GONE = "gone"


WAITED_FOR = {Placed.FUNDS.value: "no_funds", Placed.LIMIT.value: "no_limit_room"}
"""Why a job ends that waited a day for this; for anything else it was room in the market."""


def jobs_place(*, now: datetime) -> int:
    """Place what can be placed now; returns how many jobs got a machine. May run beside its twin: jobs are locked."""
    queues: dict[UUID, deque[Job]] = defaultdict(deque)
    waiting = Job.objects.filter(status="queued", customer__status="active", queued_at__gt=_queue_start(now))
    for job in waiting.order_by("created_at", "pk")[:QUEUE_READ]:
        queues[job.customer_id].append(job)
    running = _running_gpus(queues) if len(queues) > 1 else {}
    order = [(running.get(customer, 0), queue[0].created_at, customer) for customer, queue in queues.items()]
    heapq.heapify(order)
    placed, hopeless = 0, set[Hashable]()
    while order:
        count, _since, customer = heapq.heappop(order)
        job = queues[customer].popleft()
        gone = bool(hopeless) and _wish(job) in hopeless
        result = Placed.CAPACITY if gone else _place_alone(job.pk, now)
        if result is Placed.PLACED:
            placed += 1
            count += job.gpu_count
        elif result is Placed.CAPACITY:
            hopeless.add(_wish(job))
        if queues[customer]:
            heapq.heappush(order, (count, queues[customer][0].created_at, customer))
    return placed


def _place_alone(job_id: UUID, now: datetime) -> Placed:
    """One customer's job that cannot be placed for a fault of ours must not stand in front of everybody's."""
    try:
        return job_place(job_id=job_id, now=now)
    except Exception:
        log.exception("job_not_placed", job=str(job_id))
        return Placed.GONE


def queue_sweep(*, now: datetime) -> int:
    """Jobs that waited a day end with the reason they waited for; returns how many."""
    ended = 0
    for job_id in Job.objects.filter(status="queued", queued_at__lte=_queue_start(now)).values_list("pk", flat=True):
        with transaction.atomic():
            job = _locked_queued(job_id)
            if job is not None:
                _fail(job, WAITED_FOR.get(job.waiting, "no_capacity"), now)
                ended += 1
    return ended


def job_place(*, job_id: UUID, now: datetime) -> Placed:
    """Try to give one queued job a machine."""
    with transaction.atomic():
        job = _locked_queued(job_id)
        if job is None:
            return Placed.GONE
        if gone := _chosen_gone(job):
            _fail(job, gone, now)
            return Placed.FAILED
        result = Placed.CAPACITY
        for listing_id in _candidates(job, now):
            found = _try(job, listing_id, now)
            if found is Placed.PLACED:
                return found
            if found in (Placed.FUNDS, Placed.LIMIT):
                result = found
        if job.waiting != result.value:
            Job.objects.filter(pk=job.pk).update(waiting=result.value)
    return result


def _queue_start(now: datetime) -> datetime:
    return now - timedelta(seconds=QUEUE_SECONDS)


def _running_gpus(customers: dict[UUID, deque[Job]]) -> dict[UUID, int]:
    live = Attempt.objects.exclude(status="ended").filter(job__customer__in=list(customers))
    return dict(live.values_list("job__customer").annotate(gpus=Sum("job__gpu_count")))


def _wish(job: Job) -> Hashable:
    """What the job needs of the market: if one such job found nothing, the next in the same pass finds nothing either."""
    if job.attempts.exists():
        return job.pk  # it avoids machines of its own
    wanted = (job.gpu_model_id, job.gpu_count, job.max_rate_micro, job.min_reliability, job.region, job.country)
    return (*wanted, job.disk_gb, job.time_limit_s, job.listing_id, job.customer_id)


def _locked_queued(job_id: UUID) -> Job | None:
    rows = Job.objects.select_for_update(skip_locked=True, of=("self",)).select_related("customer")
    return rows.filter(pk=job_id, status="queued").first()


def _chosen_gone(job: Job) -> str | None:
    """Why the chosen listing can never take the job, if so. One that is only hidden or full for now is waited for."""
    if job.listing_id is None:
        return None
    listing = Listing.objects.select_related("machine").get(pk=job.listing_id)
    if listing.machine.status in ("retired", "revoked"):
        return "listing_gone"
    if listing.visible and listing.rate_micro is not None and listing.rate_micro > job.max_rate_micro:
        return "rate_changed"
    return None


def _fail(job: Job, reason: str, now: datetime) -> None:
    changes = {"ended_at": now, "reason": reason, "secrets": None, "waiting": ""}
    JOB.move(job, to="failed", reason=reason, at=now, changes=changes)
    job_end_tell(job=job, now=now)


def _candidates(job: Job, now: datetime) -> list[UUID]:
    """Ids of listings that fit by what the index says, best rank first."""
    ends = now + timedelta(seconds=job.time_limit_s)
    rows = ListingIndex.objects.filter(
        Q(open_until__isnull=True) | Q(open_until__gte=ends),
        Q(disk_gb__isnull=True) | Q(disk_gb__gte=job.disk_gb),
        rentable=True,
        gpus_free__gte=job.gpu_count,
        rate_micro__lte=job.max_rate_micro,
    ).exclude(listing__provider__party=job.customer_id)
    if job.listing_id is not None:
        rows = rows.filter(listing=job.listing_id)
    else:
        if job.gpu_model_id is not None:
            rows = rows.filter(gpu_model=job.gpu_model_id)
        if job.region:
            rows = rows.filter(region=job.region)
        if job.country:
            rows = rows.filter(country=job.country)
        if job.min_reliability is not None:
            rows = rows.filter(reliability__gte=job.min_reliability)
    avoided = Attempt.objects.filter(job=job, ended_at__gt=now - AVOID)
    rows = rows.exclude(listing__machine__in=avoided.values("machine_id"))
    return list(rows.order_by("-rank", "-listing_id").values_list("listing_id", flat=True)[:CANDIDATES])


def _try(job: Job, listing_id: UUID, now: datetime) -> Placed:
    try:
        with transaction.atomic():
            return _take(job, listing_id, now)
    except Conflict:
        # A benchmark, or a card that fell out since the last count. Count again, so that nobody else is led astray.
        with transaction.atomic():
            listing_recount(listing=Listing.objects.select_for_update().get(pk=listing_id))
        return Placed.CAPACITY
    except SpendLimitReached:
        return Placed.LIMIT
    except InsufficientFunds:
        return Placed.FUNDS


def _take(job: Job, listing_id: UUID, now: datetime) -> Placed:
    listing = Listing.objects.select_for_update(of=("self",)).select_related("machine", "provider").get(pk=listing_id)
    ends = now + timedelta(seconds=job.time_limit_s)
    rate = listing.rate_micro
    if not listing.visible or rate is None or rate > job.max_rate_micro:
        return Placed.CAPACITY
    if listing.open_until is not None and listing.open_until < ends:
        return Placed.CAPACITY
    sellable = gpus_sellable(machine_id=listing.machine_id, gpu_model_id=listing.gpu_model_id)
    free = [each.gpu for each in sellable if each.free]
    if len(free) < job.gpu_count:
        listing_counted(listing=listing, total=len(sellable), free=len(free))
        return Placed.CAPACITY
    gpus = free[: job.gpu_count]
    attempt_id = uuid7()
    gpus_claim(gpu_ids=[gpu.pk for gpu in gpus], kind="job", holder=attempt_id, now=now)
    _begin(job, listing, rate, attempt_id, gpus, now)
    # Counted above, and the lock is still ours: only what we took has changed.
    listing_counted(listing=listing, total=len(sellable), free=len(free) - len(gpus))
    return Placed.PLACED


def _begin(job: Job, listing: Listing, rate: int, attempt_id: UUID, gpus: list[Gpu], now: datetime) -> None:
    """Attempt, rental, hold and plan of a claim that was just made."""
    token = secret_new(TOKEN_PREFIX)
    attempt = Attempt.objects.create(
        id=attempt_id,
        created_at=now,
        job=job,
        number=job.attempts.count() + 1,
        machine=listing.machine,
        provider=listing.provider,
        token_hash=secret_hash(token),
        boot_id=listing.machine.boot_id,
        lease_until=now + timedelta(seconds=OFFER_SECONDS),
    )
    held = pricing.hold_micro(rate_micro=rate, gpus=len(gpus))
    rental = Rental.objects.create(
        created_at=now,
        attempt=attempt,
        customer=job.customer,
        provider=listing.provider,
        gpu_model_id=listing.gpu_model_id,
        gpus=len(gpus),
        rate_micro=rate,
        fee_bps=fee_bps_at(now),
        covered_micro=held,
    )
    RentalGpu.objects.bulk_create(RentalGpu(rental=rental, gpu=gpu) for gpu in gpus)
    hold_place(party=job.customer, amount_micro=held, source=rental.hold_source, now=now)
    # After the hold, which locks the customer's account: two placements never find the same room.
    spend_check(party=job.customer, holds=HOLD_PREFIX, now=now)
    JOB.move(job, to="active", at=now, changes={"waiting": ""})
    body = attempt_plan(attempt=attempt, job=job, machine=listing.machine, gpus=gpus, token=token)
    plan_put(machine_id=listing.machine_id, kind=ATTEMPT_KIND, key=attempt.pk, body=body, now=now)

"""From windows to the ledger: cumulative charges every quarter of an hour and at the end, then hold and credit.

Lock order: rentals by id, then (inside billing) accounts. A charge's source names its seconds, so it can be posted once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

import structlog
from django.db import DatabaseError, connection, transaction

from agent_protocol.reasons import reason_get
from billing.services import EarningInput, UsageInput, hold_release, service_credit_post, usage_post_many
from core.errors import DomainError
from core.money import charge_micro
from marketplace import pricing
from marketplace.models import Charge, Rental
from marketplace.models.rental import CREDIT_PREFIX
from marketplace.services.windows import WINDOW, windows_extend

log = structlog.get_logger(__name__)

BATCH = 50
"""Charges per transaction: what the ledger posts at once."""

_DUE = """
SELECT rental.id, used.to_seconds FROM marketplace_rental rental
CROSS JOIN LATERAL (
    SELECT to_seconds FROM marketplace_usagewindow used
    WHERE used.rental_id = rental.id
        AND used.starts_at >= date_bin(%(window)s::interval, rental.started_at, 'epoch'::timestamptz)
    ORDER BY starts_at DESC LIMIT 1
) used
WHERE rental.settled_at IS NULL AND used.to_seconds > rental.billed_seconds
    AND (%(only)s::uuid IS NULL OR rental.id = %(only)s::uuid)
ORDER BY rental.id
"""


def usage_settle(*, now: datetime) -> int:
    """Post what open rentals used since the last time, and close those that ended; returns how many charges were posted.

    A rental that cannot be charged is left for the next time; the others are charged.
    """
    posted = _post(_due(None), now)
    rentals_settle_ended(now=now)
    return posted


def rentals_settle_ended(*, now: datetime) -> int:
    """Settle every rental that ended and is not settled (its own job got lost, or it could not be charged then).

    One that cannot be settled is logged and left for the next time; the others get their holds and credits.
    """
    ended = Rental.objects.filter(ended_at__isnull=False, settled_at__isnull=True).order_by("pk")
    return sum(_settle_alone(rental_id, now) for rental_id in ended.values_list("pk", flat=True))


def _settle_alone(rental_id: UUID, now: datetime) -> bool:
    try:
        return rental_settle(rental_id=rental_id, now=now)
    except (DatabaseError, DomainError):
        log.exception("rental_not_settled", rental=str(rental_id))
        return False


def rental_settle(*, rental_id: UUID, now: datetime) -> bool:
    """The last charge of an ended rental, the rest of its hold back, a credit if the provider's fault ended it.

    True when it is settled (also if it was before). May run twice or beside its twin.
    """
    windows_extend(rental_id=rental_id)
    _post(_due(rental_id), now)
    with transaction.atomic():
        rental = Rental.objects.select_for_update(of=("self",)).select_related("attempt").get(pk=rental_id)
        if rental.settled_at is not None:
            return True
        if rental.ended_at is None or _due(rental_id):
            return False
        credited = _credit(rental, now)
        hold_release(source=rental.hold_source, now=now)
        Rental.objects.filter(pk=rental.pk).update(settled_at=now, credited_micro=credited)
    return True


def _due(only: UUID | None) -> dict[UUID, int]:
    """{rental: seconds up to which it is to be charged}."""
    with connection.cursor() as cursor:
        cursor.execute(_DUE, {"window": WINDOW, "only": None if only is None else str(only)})
        return dict(cursor.fetchall())


def _post(due: Mapping[UUID, int], now: datetime) -> int:
    ids = list(due)
    return sum(_post_batch(ids[start : start + BATCH], due, now) for start in range(0, len(ids), BATCH))


def _post_batch(ids: Sequence[UUID], due: Mapping[UUID, int], now: datetime) -> int:
    with transaction.atomic():
        rows = Rental.objects.filter(pk__in=ids, settled_at__isnull=True).order_by("pk")
        rows = rows.select_related("customer", "provider__party", "gpu_model").prefetch_related("rental_gpus")
        rentals = [
            rental
            for rental in rows.select_for_update(of=("self",), skip_locked=True)
            if due[rental.pk] > rental.billed_seconds
        ]
        charges = [_charge(rental, due[rental.pk], now) for rental in rentals]
        items = [_usage(rental, charge, now) for rental, charge in zip(rentals, charges, strict=True)]
        answers = usage_post_many(items=items, now=now)
        posted = 0
        for rental, charge, answer in zip(rentals, charges, answers, strict=True):
            if answer.error is not None:
                log.error("rental_not_charged", rental=str(rental.pk), error=repr(answer.error))
                continue
            charge.save(force_insert=True)
            Rental.objects.filter(pk=rental.pk).update(
                billed_seconds=charge.to_seconds, charged_micro=rental.charged_micro + charge.amount_micro
            )
            posted += 1
    return posted


def _charge(rental: Rental, seconds: int, now: datetime) -> Charge:
    """Cumulative: all it costs since the start, less what was charged. Rounding every quarter by itself would drift."""
    whole = charge_micro(rate_micro=rental.rate_micro, gpus=rental.gpus, seconds=seconds)
    return Charge(
        rental=rental,
        source=f"usage:{rental.pk}:{rental.billed_seconds}-{seconds}",
        from_seconds=rental.billed_seconds,
        to_seconds=seconds,
        amount_micro=whole - rental.charged_micro,
        posted_at=now,
    )


def _usage(rental: Rental, charge: Charge, now: datetime) -> UsageInput:
    gpus = sorted(rental.rental_gpus.all(), key=lambda each: each.pk)
    return UsageInput(
        source=charge.source,
        customer=rental.customer,
        provider=rental.provider.party,
        amount_micro=charge.amount_micro,
        fee_bps=rental.fee_bps,
        lines=[EarningInput(each.gpu_id, rental.gpu_model.name, rental.pk) for each in gpus],
        effective_at=now,
        hold_source=rental.hold_source,
    )


def _credit(rental: Rental, now: datetime) -> int:
    """Give the last hours back when the provider's fault ended the attempt, once; returns micro-USDC."""
    if not reason_get(rental.attempt.reason).credited or rental.charged_micro == 0:
        return 0
    amount = pricing.credit_micro(rate_micro=rental.rate_micro, gpus=rental.gpus, billed_seconds=rental.billed_seconds)
    # Only the charges that paid those hours: what a GPU earned before them may have matured and been paid out already.
    since = pricing.credit_from(billed_seconds=rental.billed_seconds)
    charges = rental.charges.filter(amount_micro__gt=0, to_seconds__gt=since).order_by("pk")
    sources = list(charges.values_list("source", flat=True))
    if amount == 0 or not sources:
        return 0
    service_credit_post(source=f"{CREDIT_PREFIX}{rental.attempt_id}", of_sources=sources, amount_micro=amount, now=now)
    return amount

"""Metering, every minute: seconds that are backed by evidence, in one set-based statement; and holds that run low.

A rental's seconds at any moment are min(server elapsed up to the last accepted report or the stop order, the agent's
own monotonic seconds). Windows only grow, so running twice, late or beside a twin gives the same rows.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import structlog
from django.db import DatabaseError, connection, transaction

from billing.selectors import Spending
from billing.services import SpendLimitReached, hold_extend, spend_check
from core.errors import DomainError, InsufficientFunds
from core.money import charge_micro
from core.states import SYSTEM
from marketplace import pricing
from marketplace.models import Rental
from marketplace.models.rental import HOLD_PREFIX
from marketplace.services.protection import REACHED_PERCENT, spend_limit_tell
from marketplace.services.stopping import attempt_stop_by_id

log = structlog.get_logger(__name__)

WINDOW = "15 minutes"

# Windows are partitioned by day for 13 months. The last one of a rental is nearly always the one that the evidence falls
# into, or the quarter before: each is one look at one partition, and coalesce goes no further than it has to. Only after a
# silence is it searched for, between the rental's start and now, so that PostgreSQL opens a few partitions and not all.
# OFFSET 0 keeps the looks from being repeated wherever their answer is used.
_EXTEND = """
INSERT INTO marketplace_usagewindow AS kept (rental_id, starts_at, from_seconds, to_seconds, through_at)
SELECT rental.id, evidence.quarter, last.to_seconds, evidence.seconds, evidence.at
FROM marketplace_rental rental
JOIN marketplace_attempt attempt ON attempt.id = rental.attempt_id
CROSS JOIN LATERAL (
    SELECT least(attempt.confirmed_at, attempt.stop_requested_at) AS at,
        date_bin(%(window)s::interval, least(attempt.confirmed_at, attempt.stop_requested_at), 'epoch'::timestamptz) AS quarter,
        least(floor(extract(epoch FROM least(attempt.confirmed_at, attempt.stop_requested_at) - rental.started_at))::bigint,
              attempt.confirmed_elapsed_s) AS seconds
) evidence
CROSS JOIN LATERAL (
    SELECT coalesce(
        (SELECT to_seconds FROM marketplace_usagewindow WHERE rental_id = rental.id AND starts_at = evidence.quarter),
        (SELECT to_seconds FROM marketplace_usagewindow
         WHERE rental_id = rental.id AND starts_at = evidence.quarter - %(window)s::interval),
        (SELECT to_seconds FROM marketplace_usagewindow
         WHERE rental_id = rental.id AND starts_at < evidence.quarter
            AND starts_at >= date_bin(%(window)s::interval, rental.started_at, 'epoch'::timestamptz)
         ORDER BY starts_at DESC LIMIT 1),
        0) AS to_seconds
    OFFSET 0
) last
WHERE rental.settled_at IS NULL AND rental.started_at IS NOT NULL
    AND attempt.confirmed_at IS NOT NULL AND attempt.confirmed_elapsed_s IS NOT NULL
    AND (%(only)s::uuid IS NULL OR rental.id = %(only)s::uuid)
    AND evidence.seconds > last.to_seconds
ORDER BY rental.id
ON CONFLICT (rental_id, starts_at) DO UPDATE
SET to_seconds = greatest(kept.to_seconds, excluded.to_seconds), through_at = greatest(kept.through_at, excluded.through_at)
"""
# Of rentals that run and nobody stopped: those whose cover ends within the renewal time, by the server's clock, and that
# may run on beyond their cover.
_LOW = """
SELECT rental.id, rental.attempt_id FROM marketplace_rental rental
JOIN marketplace_attempt attempt ON attempt.id = rental.attempt_id
JOIN marketplace_job job ON job.id = attempt.job_id
CROSS JOIN LATERAL (SELECT greatest(0, floor(extract(epoch FROM %(now)s - rental.started_at)))::bigint AS seconds) ran
WHERE rental.settled_at IS NULL AND rental.ended_at IS NULL AND rental.started_at IS NOT NULL
    AND attempt.stop_requested_at IS NULL
    AND rental.covered_micro < rental.rate_micro * rental.gpus * (ran.seconds + %(ahead)s) / 3600
    AND rental.covered_micro < rental.rate_micro * rental.gpus * job.time_limit_s / 3600
ORDER BY rental.id
"""


def windows_close(*, now: datetime) -> int:
    """Extend the windows of every open rental by its evidence, then renew holds; returns how many windows moved."""
    moved = windows_extend()
    holds_renew(now=now)
    return moved


def windows_extend(*, rental_id: UUID | None = None) -> int:
    """Bring windows in line with the evidence, of all open rentals or of one; returns how many rows were written."""
    with connection.cursor() as cursor:
        cursor.execute(_EXTEND, {"window": WINDOW, "only": None if rental_id is None else str(rental_id)})
        return cursor.rowcount


def holds_renew(*, now: datetime) -> int:
    """Fill up holds with under 15 minutes of cover; a customer who cannot pay, or whose spend limit leaves no room, is stopped
    while the rest covers the stop.

    Returns how many were renewed.
    """
    with connection.cursor() as cursor:
        cursor.execute(_LOW, {"now": now, "ahead": pricing.HOLD_RENEW_SECONDS})
        low = cursor.fetchall()
    renewed = 0
    for rental_id, attempt_id in low:
        try:
            renewed += _renew_or_stop(rental_id, attempt_id, now)
        except (DatabaseError, DomainError):
            # A lock that another holds too long, a hold that is closed: looked at again in a minute, the others now.
            log.exception("hold_not_renewed", rental=str(rental_id))
    return renewed


def _renew_or_stop(rental_id: UUID, attempt_id: UUID, now: datetime) -> bool:
    try:
        return _renew(rental_id, now)
    except SpendLimitReached as error:
        attempt_stop_by_id(attempt_id=attempt_id, reason="spend_limit", actor=SYSTEM, now=now)
        _limit_tell(rental_id, error.spending, now)
        return False
    except InsufficientFunds:
        attempt_stop_by_id(attempt_id=attempt_id, reason="balance_exhausted", actor=SYSTEM, now=now)
        return False


def _limit_tell(rental_id: UUID, found: Spending, now: datetime) -> None:
    customer = Rental.objects.select_related("customer").get(pk=rental_id).customer
    spend_limit_tell(customer=customer, of=found, percent=REACHED_PERCENT, spent_micro=found.spent_micro, now=now)


def _renew(rental_id: UUID, now: datetime) -> bool:
    with transaction.atomic():
        rental = Rental.objects.select_for_update(of=("self",)).select_related("customer").get(pk=rental_id)
        if rental.ended_at is not None or rental.started_at is None:
            return False
        seconds = max(0, int((now - rental.started_at).total_seconds()))
        accrued = charge_micro(rate_micro=rental.rate_micro, gpus=rental.gpus, seconds=seconds)
        ahead = pricing.hold_micro(rate_micro=rental.rate_micro, gpus=rental.gpus)
        # What has accrued but is not posted yet still comes out of this hold.
        hold_extend(source=rental.hold_source, amount_micro=accrued - rental.charged_micro + ahead, now=now)
        spend_check(party=rental.customer, holds=HOLD_PREFIX, now=now)
        Rental.objects.filter(pk=rental.pk).update(covered_micro=accrued + ahead)
    return True

"""Euro rates: one person enters what the European Central Bank published, another confirms it."""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog
from django.db import transaction

from accounts.models import User
from billing.euros import (
    MARGIN_BPS,
    RATE_MAX_AGE_SECONDS,
    RATE_MAX_CHANGE_BPS,
    change_bps,
    format_reference,
    parse_reference,
)
from billing.models import EurRate
from billing.selectors.rates import eur_rate_latest
from billing.services.audit import audit_record
from billing.services.bank.staff import staff_check
from core import jobs
from core.errors import Conflict, Denied, Invalid
from core.locks import lock_name, lock_rows

log = structlog.get_logger(__name__)

HOURS = RATE_MAX_AGE_SECONDS // 3600


def eur_rate_enter(*, reference: str, source: str, published_at: datetime, actor: User, now: datetime) -> EurRate:
    """Write down a published rate (dollars per euro, ``1.1702``). It counts once somebody else has confirmed it.

    Raises Denied, and Invalid naming reference (no rate, or more than 3 % off the last confirmed one), source (empty) or
    published_at (to come, or more than 24 hours ago).
    """
    staff_check(actor, "add_eurrate")
    reference_micro = parse_reference(reference)
    source = " ".join(source.split())
    if not source:
        raise Invalid.field("source", found=source, allowed="where it was published")
    _check_age(published_at, now)
    _check_change(reference_micro)
    with transaction.atomic():
        rate = EurRate.objects.create(
            reference_micro=reference_micro,
            margin_bps=MARGIN_BPS,
            source=source[:120],
            published_at=published_at,
            entered_by=actor,
            created_at=now,
        )
        _audit("eur_rate_enter", rate, actor, now, confirmed=False)
    log.info("eur_rate_entered", rate=str(rate.pk), reference_micro=reference_micro, actor=str(actor.pk))
    return rate


def eur_rate_confirm(*, rate: EurRate, actor: User, now: datetime) -> EurRate:
    """A second person's yes; from now on bank payouts are planned at it. Confirming it again changes nothing.

    Raises Denied (no right, or the person who entered it), Invalid (too old by now, or too far off the last one),
    Conflict (somebody else has confirmed it).
    """
    staff_check(actor, "change_eurrate")
    with transaction.atomic():
        # Two rates that are confirmed at once are each measured against the other.
        lock_name("billing:eur-rates")
        (row,) = lock_rows(EurRate.objects.all(), [rate.pk])
        if row.confirmed_by_id == actor.pk:
            return row
        if row.confirmed_at is not None:
            raise Conflict("This rate is confirmed already.")
        if row.entered_by_id == actor.pk:
            raise Denied("You have entered this rate; somebody else has to confirm it.")
        _check_age(row.published_at, now)
        _check_change(row.reference_micro)
        EurRate.objects.filter(pk=row.pk).update(confirmed_by=actor, confirmed_at=now)
        _audit("eur_rate_confirm", row, actor, now, confirmed=True)
        jobs.enqueue("billing.bank_runs_plan")
    log.info("eur_rate_confirmed", rate=str(row.pk), actor=str(actor.pk))
    row.refresh_from_db()
    return row


def _audit(verb: str, rate: EurRate, actor: User, now: datetime, *, confirmed: bool) -> None:
    before = {"confirmed": False} if confirmed else {}
    after = {"reference_micro": rate.reference_micro, "published_at": rate.published_at, "confirmed": confirmed}
    audit_record(verb=verb, subject=rate, actor=actor, before=before, after=after, reason=rate.source, now=now)


def _check_age(published_at: datetime, now: datetime) -> None:
    if not now - timedelta(seconds=RATE_MAX_AGE_SECONDS) < published_at <= now:
        raise Invalid.field("published_at", found=published_at.isoformat(), allowed=f"the {HOURS} hours before now")


def _check_change(reference_micro: int) -> None:
    last = eur_rate_latest()
    if last is not None and change_bps(last.reference_micro, reference_micro) > RATE_MAX_CHANGE_BPS:
        raise Invalid.field(
            "reference",
            found=format_reference(reference_micro),
            allowed=f"at most {RATE_MAX_CHANGE_BPS // 100} % off the last one, {format_reference(last.reference_micro)}",
        )

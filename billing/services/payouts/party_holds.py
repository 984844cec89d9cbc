"""Holds told down by those who know a payee better: a suspended provider is owed its money and is paid none for now."""

from __future__ import annotations

from datetime import datetime

import structlog
from django.db import transaction

from accounts.models import Party
from billing.models import PayoutHold
from billing.services.audit import audit_record
from core.errors import Invalid
from core.locks import lock_name

log = structlog.get_logger(__name__)


def payout_hold_place(*, party: Party, source: str, reason: str, now: datetime) -> PayoutHold:
    """Pay the party nothing while this hold is open; the same source again is the same hold. Raises Invalid (field reason)."""
    if not reason.strip():
        raise Invalid.field("reason", found=reason, allowed="a sentence for those who read it later")
    with transaction.atomic():
        lock_name(f"billing:destination:{party.pk}")
        # A signature that is being recorded holds this row: it comes before the hold, or not at all.
        Party.objects.select_for_update(no_key=True).get(pk=party.pk)
        found = PayoutHold.objects.filter(source=source, released_at__isnull=True).first()
        if found is not None:
            return found
        log.warning("payouts_of_party_held", party=str(party.pk), source=source)
        return PayoutHold.objects.create(party=party, source=source, reason=reason.strip()[:200], created_at=now)


def payout_hold_release(*, source: str, now: datetime, actor: object | None = None) -> int:
    """The hold of this source is over; without one nothing happens. Returns how many were open."""
    with transaction.atomic():
        hold = PayoutHold.objects.select_for_update().filter(source=source, released_at__isnull=True).first()
        if hold is None:
            return 0
        PayoutHold.objects.filter(pk=hold.pk).update(released_at=now)
        audit_record(
            verb="payout_hold_release",
            subject=hold,
            actor=actor,
            before={"held": hold.reason},
            after={"held": ""},
            party=hold.party,
            now=now,
        )
    return 1

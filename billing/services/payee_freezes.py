"""A letter about a new payout destination carries a link that stops payouts. It works without a log-in: that may be stolen."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog
from django.core import signing
from django.db import transaction
from django.utils.translation import gettext as _

from accounts.models import Party, User
from billing.models import Destination, DestinationFreeze
from billing.services.audit import audit_record
from core.errors import Conflict, Denied, Invalid, NotFound
from core.locks import lock_name

log = structlog.get_logger(__name__)

LINK_SALT = "billing.destination.freeze"
LINK_DAYS = 30
"""As long as a party's former addresses are written to. A freeze that comes after the first payout still saves the next one."""
INSTANT = "%Y-%m-%dT%H:%M:%S"


@dataclass(frozen=True, slots=True)
class FreezeLink:
    """What a link is about."""

    destination: Destination
    expires_at: datetime


def freeze_token(destination: Destination, *, now: datetime) -> str:
    """What opens the freezing of this change, and nothing else, until it expires."""
    expires_at = now + timedelta(days=LINK_DAYS)
    return signing.dumps([str(destination.pk), expires_at.strftime(INSTANT)], salt=LINK_SALT)


def freeze_link_read(*, token: str, now: datetime) -> FreezeLink:
    """Raises NotFound: not a link of ours, or one that has expired."""
    gone = NotFound(_("This link is not valid, or has expired. Write to us if your payouts have to be stopped."))
    try:
        key, until = signing.loads(token, salt=LINK_SALT)
        expires_at = datetime.strptime(until, INSTANT).replace(tzinfo=UTC)
    except (signing.BadSignature, TypeError, ValueError):
        raise gone from None
    destination = Destination.objects.select_related("party").filter(pk=key).first()
    if destination is None or expires_at <= now:
        raise gone
    return FreezeLink(destination, expires_at)


def destination_freeze(*, token: str, now: datetime) -> DestinationFreeze:
    """Pay the party nothing until staff clear it; what is signed already is followed to its end. Twice is once.

    Raises NotFound (freeze_link_read).
    """
    destination = freeze_link_read(token=token, now=now).destination
    with transaction.atomic():
        lock_name(f"billing:destination:{destination.party_id}")
        # A signature that is being recorded holds this row: it comes before the freeze, or not at all.
        Party.objects.select_for_update(no_key=True).get(pk=destination.party_id)
        found = DestinationFreeze.objects.filter(party=destination.party, cleared_at__isnull=True).first()
        if found is not None:
            return found
        log.warning("payouts_of_party_frozen", party=str(destination.party_id), destination=str(destination.pk))
        return DestinationFreeze.objects.create(party=destination.party, destination=destination, created_at=now)


def destination_freeze_clear(
    *, freeze: DestinationFreeze, actor: User, reason: str, now: datetime
) -> DestinationFreeze:
    """Staff have spoken with the payee: payouts go on, to the present destination.

    Raises Denied (not staff with the right, or the payee), Invalid (field reason), Conflict (it is cleared).
    """
    if not actor.is_staff or not actor.has_perm("billing.change_destination"):
        raise Denied("Only staff with the right to change destinations can do this.")
    if freeze.party.members.filter(user=actor).exists():
        raise Denied("Nobody clears a freeze of their own payouts.")
    if not reason.strip():
        raise Invalid.field("reason", found=reason, allowed="a sentence for those who read it later")
    said = reason.strip()[:200]
    with transaction.atomic():
        cleared = DestinationFreeze.objects.filter(pk=freeze.pk, cleared_at__isnull=True).update(
            cleared_at=now, cleared_by=actor, reason=said
        )
        if cleared != 1:
            raise Conflict("freeze: it is cleared already.")
        audit_record(
            verb="destination_freeze_clear",
            subject=freeze,
            actor=actor,
            before={"frozen": True},
            after={"frozen": False},
            reason=said,
            party=freeze.party,
            now=now,
        )
    log.warning("payouts_of_party_thawed", party=str(freeze.party_id), actor=str(actor.pk))
    freeze.refresh_from_db()
    return freeze

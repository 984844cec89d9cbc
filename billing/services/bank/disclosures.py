"""Showing staff what is masked elsewhere, and writing down who saw it."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from accounts.models import User
from billing.models import BankMessage, Destination, Disclosure
from billing.services.bank.staff import staff_check
from core.errors import NotFound


def destination_show(*, destination_id: UUID, actor: User, now: datetime) -> Destination:
    """The whole account number. Raises Denied, NotFound."""
    staff_check(actor, "view_destination")
    found = Destination.objects.filter(pk=destination_id).select_related("party").first()
    if found is None:
        raise NotFound("There is no such destination.")
    Disclosure.objects.create(what=Disclosure.What.DESTINATION, subject_id=found.pk, actor=actor, at=now)
    return found


def bank_message_show(*, message_id: UUID, actor: User, now: datetime) -> BankMessage:
    """A file from the bank as it came. Raises Denied, NotFound."""
    staff_check(actor, "view_bankmessage")
    found = BankMessage.objects.filter(pk=message_id).first()
    if found is None:
        raise NotFound("There is no such message.")
    Disclosure.objects.create(what=Disclosure.What.MESSAGE, subject_id=found.pk, actor=actor, at=now)
    return found

"""Enrolment tokens: 14 days, as many machines as are approved and not yet here."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.utils.translation import gettext as _

from core.errors import Conflict
from core.ids import secret_hash, secret_new
from core.locks import lock_rows
from core.states import actor_name
from providers.models import EnrolmentToken, Machine, Provider
from providers.states import MACHINE_LIVE

TOKEN_DAYS = 14
"""Long enough for a data centre's change window, short enough that a forgotten mail opens nothing."""
TOKEN_PREFIX = "gpxe"
REENROLMENT_LIFE = timedelta(days=1)
"""Its owner stands before the machine; what is not used by then was not needed."""


def enrolment_token_issue(*, provider: Provider, actor: object, now: datetime) -> tuple[EnrolmentToken, str]:
    """A new token and its secret, shown this once. It replaces the provider's open ones, so that uses never add up.

    Raises Conflict: ``provider_not_active``, or ``fleet_full`` when every approved machine is already here.
    """
    with transaction.atomic():
        (locked,) = lock_rows(Provider.objects.all(), [provider.pk])
        if locked.status != Provider.Status.ACTIVE:
            raise Conflict(_("This provider is not active."), code="provider_not_active")
        here = Machine.objects.filter(provider=locked, status__in=MACHINE_LIVE).count()
        uses = locked.approved_machines - here
        if uses < 1:
            raise Conflict(
                _("All %(count)d approved machines are enrolled. Retire one, or apply for more.")
                % {"count": locked.approved_machines},
                code="fleet_full",
            )
        EnrolmentToken.objects.filter(provider=locked, machine=None, revoked_at__isnull=True).update(revoked_at=now)
        secret = secret_new(TOKEN_PREFIX)
        token = EnrolmentToken.objects.create(
            provider=locked,
            secret_hash=secret_hash(secret),
            expires_at=now + timedelta(days=TOKEN_DAYS),
            uses=uses,
            uses_left=uses,
            issued_by=actor_name(actor),
            created_at=now,
        )
    return token, secret


def reenrolment_token_issue(*, machine: Machine, actor: object, now: datetime) -> tuple[EnrolmentToken, str]:
    """A token with which this very machine enrols anew, once, within a day; its secret is shown this once.

    What it is and has measured stays; every credential it had until then ends when the token is used. Raises Conflict
    ``machine_gone`` or ``provider_not_active``.
    """
    with transaction.atomic():
        (locked,) = lock_rows(Provider.objects.all(), [machine.provider_id])
        if locked.status != Provider.Status.ACTIVE:
            raise Conflict(_("This provider is not active."), code="provider_not_active")
        if not Machine.objects.filter(pk=machine.pk, status__in=MACHINE_LIVE).exists():
            raise Conflict(_("This machine has been removed; enrol it anew."), code="machine_gone")
        EnrolmentToken.objects.filter(machine=machine, revoked_at__isnull=True).update(revoked_at=now)
        secret = secret_new(TOKEN_PREFIX)
        token = EnrolmentToken.objects.create(
            provider=locked,
            machine=machine,
            secret_hash=secret_hash(secret),
            expires_at=now + REENROLMENT_LIFE,
            uses=1,
            uses_left=1,
            issued_by=actor_name(actor),
            created_at=now,
        )
    return token, secret


def enrolment_token_revoke(*, token: EnrolmentToken, now: datetime) -> None:
    """Close a token; machines that joined with it stay. Doing it twice changes nothing."""
    EnrolmentToken.objects.filter(pk=token.pk, revoked_at__isnull=True).update(revoked_at=now)

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
        EnrolmentToken.objects.filter(provider=locked, revoked_at__isnull=True).update(revoked_at=now)
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


def enrolment_token_revoke(*, token: EnrolmentToken, now: datetime) -> None:
    """Close a token; machines that joined with it stay. Doing it twice changes nothing."""
    EnrolmentToken.objects.filter(pk=token.pk, revoked_at__isnull=True).update(revoked_at=now)

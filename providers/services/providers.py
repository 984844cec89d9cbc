"""A provider's standing: suspended hides and starts nothing new, closed is final."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from billing.services import payout_hold_place, payout_hold_release
from core import news
from core.errors import Invalid
from providers.models import EnrolmentToken, Provider
from providers.states import PROVIDER


def _move(provider: Provider, to: str, *, actor: object, reason: str, now: datetime) -> Provider:
    if not reason.strip():
        raise Invalid.field("reason", found=reason, allowed="why it is done")
    with transaction.atomic():
        PROVIDER.move(provider, to=to, at=now, actor=actor, reason=reason)
        if to != Provider.Status.ACTIVE:
            EnrolmentToken.objects.filter(provider=provider, revoked_at__isnull=True).update(revoked_at=now)
        if to == Provider.Status.SUSPENDED:
            payout_hold_place(party=provider.party, source=_hold(provider), reason="the provider is suspended", now=now)
        elif to == Provider.Status.ACTIVE:
            payout_hold_release(source=_hold(provider), now=now)
        news.publish("provider.state", provider.pk, now=now)
    return provider


def _hold(provider: Provider) -> str:
    return f"provider:{provider.pk}"


def provider_suspend(*, provider: Provider, actor: object, reason: str, now: datetime) -> Provider:
    """Hide everything the provider offers and let nothing new start; open enrolment tokens are revoked, payouts
    are held."""
    return _move(provider, Provider.Status.SUSPENDED, actor=actor, reason=reason, now=now)


def provider_reinstate(*, provider: Provider, actor: object, reason: str, now: datetime) -> Provider:
    """End a suspension."""
    return _move(provider, Provider.Status.ACTIVE, actor=actor, reason=reason, now=now)


def provider_close(*, provider: Provider, actor: object, reason: str, now: datetime) -> Provider:
    """End it for good. Machines are retired by their owner or revoked one by one."""
    return _move(provider, Provider.Status.CLOSED, actor=actor, reason=reason, now=now)

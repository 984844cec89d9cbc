"""What the provider's pages share."""

from __future__ import annotations

from uuid import UUID

from django.http import Http404

from accounts.http import PersonRequest
from accounts.selectors import party_of
from core.errors import NotFound
from providers.models import Machine, Provider
from providers.selectors import machine_of, provider_of


def fee_percent(fee_bps: int) -> str:
    """Basis points as people read them: 1000 is ``10``, 250 is ``2.5``."""
    whole, rest = divmod(fee_bps, 100)
    return f"{whole}.{rest:02}".rstrip("0") if rest else str(whole)


def provider_or_404(request: PersonRequest) -> Provider:
    """The viewer's provider profile. Who has none sees what one sees where nothing is."""
    provider = provider_of(party_of(request.user))
    if provider is None:
        raise Http404
    return provider


def machine_or_404(request: PersonRequest, machine_id: UUID) -> tuple[Provider, Machine]:
    """The viewer's provider profile and that machine of theirs."""
    provider = provider_or_404(request)
    try:
        return provider, machine_of(provider, machine_id)
    except NotFound:
        raise Http404 from None

"""Statements with the names people know: billing has the money, the market knows machines and jobs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

import structlog
from django.db import DatabaseError

from accounts.models import Party
from billing.periods import month_closed
from billing.selectors.documents import customers_unstated, payouts_unstated
from billing.services import months_issue, payout_statement_issue
from billing.services.documents import AT_ONCE, LATE
from core.errors import DomainError
from marketplace.selectors.history import rental_names
from providers.models import Gpu, Provider

log = structlog.get_logger(__name__)


def payout_statements_issue(*, now: datetime) -> int:
    """A statement for every settled payout that has none; returns how many. One that fails keeps nobody else waiting."""
    issued = 0
    for payout in payouts_unstated(AT_ONCE):
        try:
            payout_statement_issue(
                payout=payout, now=now, gpu_names=gpu_names, addressee=provider_addressee(payout.party)
            )
            issued += 1
        except (DatabaseError, DomainError):
            log.exception("payout_statement_not_issued", payout=str(payout.pk))
    return issued


def monthly_statements_issue(*, now: datetime) -> int:
    """The statements of months that are over, for every customer whose balance moved; returns how many."""
    _start, end = month_closed((now - LATE).date())
    issued = 0
    for party in Party.objects.filter(pk__in=customers_unstated(end)).order_by("pk"):
        try:
            issued += months_issue(party=party, now=now, rental_names=rental_names)
        except (DatabaseError, DomainError):
            log.exception("monthly_statement_not_issued", party=str(party.pk))
    return issued


def gpu_names(gpu_ids: set[UUID]) -> Mapping[UUID, str]:
    """``machine · GPU 2`` per card, as the machine is called now."""
    gpus = Gpu.objects.filter(pk__in=gpu_ids).select_related("machine")
    return {gpu.pk: f"{gpu.machine.name} · {gpu.uuid[:12]}" for gpu in gpus}


def provider_addressee(party: Party) -> str:
    """Whom a provider's statement is for: the company, else the legal name of the approved application."""
    provider = Provider.objects.filter(party=party).select_related("application").first()
    return (provider.application.company or provider.application.legal_name) if provider else ""

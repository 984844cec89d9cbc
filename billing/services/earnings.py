"""Pending earnings become payable when their time has come."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

import structlog
from django.db import DatabaseError, transaction
from django.db.models import QuerySet

from accounts.models import Party
from billing.models import Account, EarningFreeze, EarningLine, Transfer
from billing.services.ledger.accounts import account_open
from billing.services.ledger.transfers import transfer_post
from core.errors import DomainError

log = structlog.get_logger(__name__)

LINES_AT_ONCE = 5_000
"""Lines per transfer: enough for a week of a large provider, small enough for a short transaction."""


def earnings_mature(*, now: datetime) -> int:
    """Move every line whose time has come, and that no dispute has frozen, from pending to payable; returns how many lines.

    May run beside itself. A freeze that comes between our look and our writing is the database's to refuse; the next run
    does without its lines.
    """
    due = _due(now)
    moved = 0
    for party in Party.objects.filter(pk__in=due.values("provider")).order_by("pk"):
        try:
            while lines := _mature_some(party, now):
                moved += lines
        except (DatabaseError, DomainError):
            log.exception("earnings_not_matured", party=str(party.pk))
    return moved


def _due(now: datetime) -> QuerySet[EarningLine]:
    frozen = EarningFreeze.objects.filter(thawed_at__isnull=True).values("rental_id")
    return EarningLine.objects.filter(matured_at__isnull=True, matures_at__lte=now).exclude(rental_id__in=frozen)


def _mature_some(party: Party, now: datetime) -> int:
    with transaction.atomic():
        lines = list(
            _due(now).filter(provider=party).order_by("id").select_for_update(skip_locked=True)[:LINES_AT_ONCE]
        )
        if not lines:
            return 0
        total = sum(line.amount_micro for line in lines)
        by = _post(party, f"matured:{party.pk}:{lines[-1].pk}", total, now) if total else None
        EarningLine.objects.filter(pk__in=[line.pk for line in lines]).update(matured_at=now, matured_by=by)
    return len(lines)


def _post(party: Party, source: str, total_micro: int, now: datetime) -> UUID:
    # A line matures once, so the last line's number names this set of lines and no other.
    pending = account_open(kind=Account.Kind.PROVIDER_PENDING, owner=party)
    payable = account_open(kind=Account.Kind.PROVIDER_PAYABLE, owner=party)
    transfer = transfer_post(
        source=source,
        kind=Transfer.Kind.EARNINGS_MATURED,
        legs=[(pending.pk, -total_micro), (payable.pk, total_micro)],
        effective_at=now,
        now=now,
    )
    return transfer.pk

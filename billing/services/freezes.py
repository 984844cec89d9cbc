"""Earnings that stay where they are while somebody decides about them."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import IntegrityError, transaction

from accounts.models import Party
from billing.models import Account, EarningFreeze, EarningLine
from billing.services.holds import hold_place, hold_release
from billing.services.ledger.accounts import account_open
from core.errors import Conflict
from core.locks import lock_rows


def earnings_freeze(*, source: str, provider: Party, rental_id: UUID, now: datetime) -> EarningFreeze:
    """Keep a rental's earnings from maturing and, as far as they are still there, its matured ones from being paid out.

    Same source: the earlier freeze. Raises Conflict where the rental's earnings are frozen by another one.
    """
    earlier = EarningFreeze.objects.filter(source=source).first()
    if earlier is not None:
        return earlier
    freeze = EarningFreeze(source=source, provider=provider, rental_id=rental_id, created_at=now)
    try:
        with transaction.atomic():
            freeze.save(force_insert=True)
            # The lines first: a maturing under way ends before we look at what has matured.
            lines = lock_rows(EarningLine.objects.filter(provider=provider, rental_id=rental_id))
            matured = sum(line.amount_micro for line in lines if line.matured_at is not None)
            payable = account_open(kind=Account.Kind.PROVIDER_PAYABLE, owner=provider)
            (account,) = lock_rows(Account.objects.all(), [payable.pk])
            # What was paid out already is not there to be kept.
            kept = min(matured, account.balance - account.held - account.min_balance)
            if kept > 0:
                hold_place(
                    party=provider, amount_micro=kept, source=source, now=now, kind=Account.Kind.PROVIDER_PAYABLE
                )
    except IntegrityError as error:
        raise Conflict("The earnings of this rental are frozen already.") from error
    return freeze


def earnings_thaw(*, source: str, now: datetime) -> None:
    """End a freeze: its lines mature again, its hold is given back. Twice is once."""
    with transaction.atomic():
        EarningFreeze.objects.filter(source=source, thawed_at__isnull=True).update(thawed_at=now)
        hold_release(source=source, now=now)

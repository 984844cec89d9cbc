"""Builders for money, through services: a balance comes from a deposit, earnings come from usage."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from accounts.models import Party, User
from accounts.selectors import party_of
from billing.models import Account, Transfer
from billing.services import EarningInput, account_open, transfer_post, usage_post
from core import clock
from core.ids import uuid7

USDC = 1_000_000


def party(owner: User | Party) -> Party:
    return owner if isinstance(owner, Party) else party_of(owner)


def funded(owner: User | Party, amount_micro: int, *, source: str | None = None, now: datetime | None = None) -> Party:
    """The owner's party, with ``amount_micro`` on its customer balance (posted as a deposit is)."""
    now = now or clock.now()
    customer = account_open(kind=Account.Kind.CUSTOMER, owner=party(owner))
    clearing = account_open(kind=Account.Kind.DEPOSITS_CLEARING)
    transfer_post(
        source=source or f"deposit:test:{uuid7()}",
        kind=Transfer.Kind.DEPOSIT,
        legs=[(clearing.pk, -amount_micro), (customer.pk, amount_micro)],
        effective_at=now,
        now=now,
    )
    return party(owner)


def earned(
    provider: User | Party,
    customer: User | Party,
    amount_micro: int,
    *,
    gpus: list[tuple[UUID, str]] | None = None,
    fee_bps: int = 1_000,
    at: datetime | None = None,
    source: str | None = None,
) -> Transfer:
    """One charge of ``amount_micro`` by ``customer`` at ``provider``; the customer may go into debt for it."""
    at = at or clock.now()
    rental = uuid7()
    transfer = usage_post(
        source=source or f"usage:{rental}:1",
        customer=party(customer),
        provider=party(provider),
        amount_micro=amount_micro,
        fee_bps=fee_bps,
        lines=[EarningInput(gpu, model, rental) for gpu, model in gpus or [(uuid7(), "rtx-4090")]],
        effective_at=at,
        now=at,
    )
    assert transfer is not None
    return transfer

"""Withdrawals and claims without a chain: a wallet that has cooled down, a request, money of nobody."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from solders.keypair import Keypair

from accounts.models import Party, User
from billing.models import Account, Deposit, Destination, Payout, Purpose, Transfer
from billing.services import account_open, transfer_post, withdrawal_request
from core import clock
from core.ids import uuid7
from tests.factories.billing import party


def withdrawal_wallet(owner: User | Party, *, usable_from: datetime | None = None) -> Destination:
    """A proven wallet for withdrawals, usable since an hour ago unless said otherwise."""
    return Destination.objects.create(
        party=party(owner),
        purpose=Purpose.WITHDRAWAL,
        address=str(Keypair().pubkey()),
        usable_from=usable_from or clock.now() - timedelta(hours=1),
    )


def withdrawing(
    owner: User | Party, amount_micro: int, *, key: UUID | None = None, now: datetime | None = None
) -> Payout:
    """A withdrawal as its customer asks for it; the wallet has to be there."""
    return withdrawal_request(
        party=party(owner), amount_micro=amount_micro, request_key=key or uuid7(), now=now or clock.now()
    )


def unlabelled(
    amount_micro: int, *, sender: Keypair | None = None, signature: str | None = None, at: datetime | None = None
) -> Deposit:
    """A deposit in suspense as the reader leaves it, from ``sender``'s wallet (None: several wallets)."""
    at = at or clock.now()
    signature = signature or str(Keypair().sign_message(uuid7().bytes))
    clearing, suspense = account_open(kind=Account.Kind.DEPOSITS_CLEARING), account_open(kind=Account.Kind.SUSPENSE)
    transfer = transfer_post(
        source=f"deposit:{signature}:vault",
        kind=Transfer.Kind.DEPOSIT,
        legs=[(clearing.pk, -amount_micro), (suspense.pk, amount_micro)],
        effective_at=at,
        now=at,
    )
    return Deposit.objects.create(
        signature=signature,
        account="vault",
        slot=1,
        block_time=at,
        amount_micro=amount_micro,
        sender=str(sender.pubkey()) if sender else "",
        state=Deposit.State.SUSPENSE,
        reason="no_reference",
        transfer=transfer,
        created_at=at,
    )

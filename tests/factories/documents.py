"""What statements are made of, without a chain: deposits that were read, payouts that were settled, days in order."""

from __future__ import annotations

from datetime import datetime, timedelta

from accounts.models import Party, User
from billing.chain.records import TransactionRecord
from billing.models import Deposit, Destination, Document, Payout, PayoutAttempt, Transfer
from billing.services import payouts_run, policy_set, receipts_issue
from billing.services.payouts.settle import payout_settle
from billing.states import PAYOUT
from core.ids import uuid7
from tests.factories.billing import USDC, funded, party


def deposited(owner: User | Party, amount_micro: int, *, at: datetime) -> Deposit:
    """A credited deposit as the reader leaves it."""
    signature = f"sig{uuid7().hex}"
    receiver = funded(owner, amount_micro, source=f"deposit:{signature}:vault", now=at)
    return Deposit.objects.create(
        signature=signature,
        account="vault",
        slot=1,
        block_time=at,
        amount_micro=amount_micro,
        sender="So11111111111111111111111111111111111111112",
        party=receiver,
        state=Deposit.State.CREDITED,
        transfer=Transfer.objects.get(source=f"deposit:{signature}:vault"),
        created_at=at,
    )


def rules(at: datetime, **values: int) -> None:
    """Policies from ``at`` on; by default no minimum and no waiting."""
    known = {
        "payout_minimum_weekly_micro": 1,
        "payout_minimum_monthly_micro": 1,
        "maturing_seconds": 0,
        "maturing_new_provider_seconds": 0,
    }
    for name, value in {**known, **values}.items():
        policy_set(name=name, value=value, valid_from=at)


def destination_for(owner: User | Party, *, usable_from: datetime) -> Destination:
    return Destination.objects.create(
        party=party(owner), address="9xQeWvG816bUx9EPjHmaT23yvVM2ZWbrrpZb9PusVFin", usable_from=usable_from
    )


def reserved(owner: User | Party, *, on: datetime) -> Payout | None:
    """The payout that the runs due on this day reserve for the party; None if there is nothing to pay."""
    before = set(Payout.objects.values_list("pk", flat=True))
    payouts_run(as_of=on.date(), now=on)
    return Payout.objects.filter(party=party(owner)).exclude(pk__in=before).first()


def settled(payout: Payout, *, at: datetime) -> Payout:
    """The payout as the money worker leaves it once its transaction is final; released by the demo's policy."""
    policy_set(name="automatic_release", value=1, valid_from=at)
    PAYOUT.move(payout, to=Payout.Status.READY, at=at, changes={"released_at": at})
    attempt = PayoutAttempt.objects.create(
        payout=payout,
        n=1,
        message=b"m",
        raw=b"r",
        signature=f"pay{uuid7().hex}",
        blockhash="b",
        last_valid_block_height=1,
        context_slot=1,
        hot_wallet="h",
        state=PayoutAttempt.State.SENT,
    )
    PAYOUT.move(payout, to=Payout.Status.SUBMITTED, at=at)
    record = TransactionRecord(
        signature=attempt.signature,
        slot=2,
        block_time=None,
        error=None,
        fee_lamports=5_000,
        raw=b"",
        signers=(),
        account_keys=(),
        reference_keys=(),
        memos=(),
        token_changes=(),
        lamports=(),
    )
    payout_settle(payout=payout, attempt=attempt, record=record, now=at + timedelta(seconds=20))
    payout.refresh_from_db()
    return payout


def receipt_of(user: User, at: datetime) -> Document:
    """The receipt of a deposit of 5 USDC that arrived just then."""
    deposited(user, 5 * USDC, at=at)
    receipts_issue(now=at)
    return Document.objects.latest("pk")

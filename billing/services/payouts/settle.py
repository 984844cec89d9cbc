"""The ledger follows what is final: a payout that landed, an attempt that failed and cost its fee."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from accounts.services import notification_send
from billing.chain.records import TransactionRecord
from billing.chain.transactions import token_account_address
from billing.models import SOL, Account, Payout, PayoutAttempt, Transfer
from billing.selectors.payouts import explorer_link
from billing.services.ledger.accounts import account_open
from billing.services.ledger.transfers import transfer_post
from billing.states import ATTEMPT, PAYOUT

Legs = list[tuple[int, int]]


def payout_settle(*, payout: Payout, attempt: PayoutAttempt, record: TransactionRecord, now: datetime) -> None:
    """in flight → treasury, fee and rent in SOL, and the payout is settled: one transaction.

    ``record`` is final, without error, and gave the recipient the amount (billing.chain.fate saw to it).
    Raises MoveNotAllowed or StaleState when somebody else was faster; nothing is posted twice.
    """
    rent = rent_lamports(payout.address, record)
    in_flight = account_open(kind=Account.Kind.PAYOUT_IN_FLIGHT, owner=payout.party)
    treasury = account_open(kind=Account.Kind.TREASURY)
    legs = [(in_flight.pk, -payout.amount_micro), (treasury.pk, payout.amount_micro)]
    if attempt.state != PayoutAttempt.State.LANDED:
        ATTEMPT.move(attempt, to=PayoutAttempt.State.LANDED, at=now)
    with transaction.atomic():
        settled = transfer_post(
            source=f"payout:{payout.pk}:settle",
            kind=Transfer.Kind.PAYOUT_SETTLED,
            legs=legs + network_legs(record.fee_lamports, rent),
            effective_at=now,
            now=now,
        )
        closing = {"closing_transfer": settled, "settled_at": now, "note": "", "lease_token": None, "lease_until": None}
        PAYOUT.move(payout, to=Payout.Status.SETTLED, at=now, changes=closing)
        costs = {"fee_lamports": record.fee_lamports, "rent_lamports": rent}
        ATTEMPT.move(attempt, to=PayoutAttempt.State.SETTLED, at=now, changes=costs)
        context = {
            "amount_micro": payout.amount_micro,
            "address": payout.address,
            "signature": attempt.signature,
            "explorer": explorer_link(attempt.signature),
        }
        kind, url = "payout_settled", "/provider/earnings/"
        if payout.is_withdrawal:
            kind, url = "withdrawal_settled", "/billing/withdrawals/"
        notification_send(kind=kind, context=context, party=payout.party, url=url, now=now)


def attempt_fail(
    *, payout: Payout, attempt: PayoutAttempt, record: TransactionRecord, now: datetime, actor: object | None = None
) -> None:
    """A final block has it, with an error: it moved nothing, cost its fee, and can never move anything."""
    with transaction.atomic():
        transfer_post(
            source=f"payout:{payout.pk}:fee:{attempt.n}",
            kind=Transfer.Kind.NETWORK_FEE,
            legs=network_legs(record.fee_lamports, 0),
            effective_at=now,
            now=now,
        )
        changes = {"error": (record.error or "")[:200], "fee_lamports": record.fee_lamports, "rent_lamports": 0}
        error = record.error or ""
        ATTEMPT.move(attempt, to=PayoutAttempt.State.FAILED, at=now, actor=actor, reason=error, changes=changes)
        PAYOUT.move(payout, to=Payout.Status.READY, at=now, actor=actor, reason="the attempt failed")


def rent_lamports(address: str, record: TransactionRecord) -> int:
    """What the recipient's new token account holds as rent; 0 if it was there."""
    for mint in {change.mint for change in record.token_changes}:
        account = token_account_address(address, mint)
        if record.created_token_account(account):
            return next(after for key, _, after in record.lamports if key == account)
    return 0


def network_legs(fee_lamports: int, rent_lamports: int) -> Legs:
    """What the hot wallet has less in SOL, and what for."""
    legs: Legs = [(account_open(kind=Account.Kind.TREASURY, asset=SOL).pk, fee_lamports + rent_lamports)]
    legs.append((account_open(kind=Account.Kind.NETWORK_FEE, asset=SOL).pk, -fee_lamports))
    if rent_lamports:
        legs.append((account_open(kind=Account.Kind.RENT, asset=SOL).pk, -rent_lamports))
    return legs

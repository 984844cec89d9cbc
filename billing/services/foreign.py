"""Payments that followed our link with the wrong money: seen by their reference, never credited, told once.

Another token, or SOL, never touches the account that the deposits' reader watches. What still leads to it is the reference of
the intent, so for a day after it was opened its history is looked at.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import structlog
from django.db import transaction

from accounts.services import notification_send
from billing.chain.errors import HistoryIncomplete, RpcError
from billing.chain.records import TransactionRecord
from billing.models import DepositIntent, ForeignPayment
from billing.selectors.deposits import intents_unpaid
from billing.services.network import Network, NetworkUnavailable, network
from core.slots import slot_claim

log = structlog.get_logger(__name__)

FRESH = timedelta(hours=1)
"""Most people pay within minutes: for so long an intent is looked at every minute."""
WATCHED = timedelta(days=1)
"""And for so long every ten: one call of the node each."""
SLOW_MINUTES = 10
AT_ONCE = 100
"""Intents per pass, the newest first: bounds the job and what it costs at the node."""
TRANSACTIONS_MAX = 20
"""Per reference: a stranger may put anybody's reference into transactions of theirs."""
SOL_MINT = "SOL"
"""What ``ForeignPayment.mint`` says of the chain's own coin."""


def foreign_payments_read(*, now: datetime) -> int:
    """Look for payments in other money under the references of unpaid intents; returns how many are new.

    A node that is silent moves nothing; the next pass looks again.
    """
    try:
        net = network()
    except NetworkUnavailable as error:
        log.warning("foreign_payments_not_read", reason=error.message)
        return 0
    slot = now.replace(minute=now.minute // SLOW_MINUTES * SLOW_MINUTES).strftime("%Y-%m-%dT%H:%M")
    span = WATCHED if slot_claim("billing.foreign_payments", slot, now=now) else FRESH
    found = 0
    try:
        for intent in intents_unpaid(since=now - span, limit=AT_ONCE):
            found += _look(net, intent, now)
    except (HistoryIncomplete, RpcError) as error:
        log.warning("foreign_payments_not_read", reason=str(error))
    return found


def _look(net: Network, intent: DepositIntent, now: datetime) -> int:
    history = net.primary.signatures_for_address(intent.reference, commitment="finalized", limit=TRANSACTIONS_MAX)
    known = set(ForeignPayment.objects.filter(intent=intent).values_list("signature", flat=True))
    found = 0
    for entry in history:
        if entry.error is not None or entry.signature in known:
            continue
        record = net.primary.transaction(entry.signature, commitment="finalized")
        if record is not None:
            found += sum(_record(intent, record, mint, amount, now) for mint, amount in _foreign(net, record))
    return found


def _foreign(net: Network, record: TransactionRecord) -> list[tuple[str, int]]:
    """(mint, amount) of what the vault's owner gained and is no USDC."""
    gained: dict[str, int] = {}
    for change in record.token_changes:
        if change.owner == net.vault_owner and change.mint != net.mint:
            gained[change.mint] = gained.get(change.mint, 0) + change.delta
    for key, before, after in record.lamports:
        if key == net.vault_owner:
            gained[SOL_MINT] = after - before
    return [(mint, amount) for mint, amount in gained.items() if amount > 0]


def _record(intent: DepositIntent, record: TransactionRecord, mint: str, amount: int, now: datetime) -> bool:
    """Write it down and tell the customer, both or neither; False when it was there."""
    payment = ForeignPayment(
        signature=record.signature,
        mint=mint,
        amount=amount,
        slot=record.slot,
        block_time=None if record.block_time is None else datetime.fromtimestamp(record.block_time, UTC),
        sender=record.signers[0] if len(record.signers) == 1 else "",
        intent=intent,
        created_at=now,
    )
    with transaction.atomic():
        ForeignPayment.objects.bulk_create([payment], ignore_conflicts=True)
        if not ForeignPayment.objects.filter(pk=payment.pk).exists():
            return False
        context = {"mint": mint, "is_sol": mint == SOL_MINT, "signature": record.signature}
        url = f"/billing/deposits/{intent.pk}/"
        notification_send(kind="foreign_payment", context=context, party=intent.party, url=url, now=now)
    log.warning("foreign_payment", signature=record.signature, mint=mint, amount=amount, intent=str(intent.pk))
    return True

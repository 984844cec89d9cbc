"""What became of a signed payout: the one place that may say "it can never land".

Saying so wrongly pays somebody twice, so the proof has a fixed order (docs: money.md). Every look that follows the
height's look is at least as new as it; a second node has to agree on all of it; and no memo of the payout may be found
among the treasury's transactions. Whatever does not fit is `UNKNOWN`: a person looks, nobody signs again.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from enum import StrEnum

from billing.chain.history import history_since
from billing.chain.records import TransactionRecord
from billing.chain.rpc import RpcClient
from billing.chain.transactions import payout_ids_in_memo


class Fate(StrEnum):
    """Where a signed transaction stands.

    LANDED: finalized, successful, and the recipient has exactly the amount.   FAILED: finalized with an error.
    PENDING: it is in a block that is not final, or may still get into one.    EXPIRED: proven never to land.
    UNKNOWN: the nodes contradict each other or themselves, or do not show enough.
    """

    LANDED = "landed"
    FAILED = "failed"
    PENDING = "pending"
    EXPIRED = "expired"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class SignedPayout:
    """What has to be remembered of a signed payout in order to follow it.

    Attributes:
        context_slot: the slot the node answered at when it gave the blockhash. Nothing of this attempt is older.
        payout_since_slot: the same of the payout's first attempt.
        treasury: the address whose history carries the payout memos (the hot wallet).
    """

    payout_id: uuid.UUID
    signature: str
    last_valid_block_height: int
    context_slot: int
    payout_since_slot: int
    treasury: str
    destination_account: str
    mint: str
    amount_micro: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """The fate, why, and the transaction where there is one."""

    fate: Fate
    reason: str
    record: TransactionRecord | None = None


def payout_fate(primary: RpcClient, second: RpcClient, payout: SignedPayout) -> Verdict:
    """Ask both nodes what became of a signed payout.

    Raises:
        RpcUnavailable, RpcRefused, HistoryIncomplete: a node did not say; nothing is known, ask again later.
    """
    seen = _seen(primary, payout)
    if seen is not None:
        return seen
    for rpc in (primary, second):
        doubt = _doubt_of_expiry(rpc, payout)
        if doubt is not None:
            return doubt
    return Verdict(Fate.EXPIRED, "both nodes are past its last block and have neither it nor its memo")


def _seen(rpc: RpcClient, payout: SignedPayout) -> Verdict | None:
    """A verdict if the node knows the transaction, None if it does not."""
    (status,) = rpc.signature_statuses([payout.signature], search_history=True).statuses
    if status is None:
        return None
    if status.commitment != "finalized":
        return Verdict(Fate.PENDING, f"in a block, {status.commitment}")
    record = rpc.transaction(payout.signature, commitment="finalized")
    if record is None:
        return Verdict(Fate.UNKNOWN, f"{rpc.name} calls it finalized and does not have it")
    if record.error is not None:
        return Verdict(Fate.FAILED, record.error, record)
    delta = record.token_delta(payout.destination_account, payout.mint)
    if delta != payout.amount_micro:
        reason = f"it moved {delta} micro-USDC to the recipient, {payout.amount_micro} were signed"
        return Verdict(Fate.UNKNOWN, reason, record)
    return Verdict(Fate.LANDED, "finalized", record)


def _doubt_of_expiry(rpc: RpcClient, payout: SignedPayout) -> Verdict | None:
    """None if this node proves that the transaction can never land; else what stands against it. The order matters."""
    slot = rpc.slot(commitment="finalized")
    height = rpc.block_height(commitment="finalized")
    if height <= payout.last_valid_block_height:
        return Verdict(Fate.PENDING, f"{rpc.name} is at block {height}, it may land until past the last valid one")
    looked = rpc.signature_statuses([payout.signature], search_history=True)
    if looked.context_slot < slot:
        return Verdict(Fate.UNKNOWN, f"{rpc.name} answered about the status as of an older slot than about the height")
    if looked.statuses[0] is not None or rpc.transaction(payout.signature, commitment="finalized") is not None:
        return Verdict(Fate.PENDING, f"{rpc.name} has it now")
    oldest = max(rpc.first_available_block(), rpc.minimum_ledger_slot())
    if oldest > payout.context_slot:
        return Verdict(
            Fate.UNKNOWN, f"{rpc.name} has history from slot {oldest}, it was signed at {payout.context_slot}"
        )
    for entry in history_since(rpc, payout.treasury, payout.payout_since_slot):
        if entry.error is None and payout.payout_id in payout_ids_in_memo(entry.memo):
            return Verdict(Fate.UNKNOWN, f"{rpc.name} shows the payout's memo in {entry.signature}")
    return None

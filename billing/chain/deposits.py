"""What arrived on a token account, as the finalized chain tells it. Reads only; the caller keeps cursor and books.

The reader trusts a node to show what exists and not to show everything: it takes an end of history for true only when
the node proves that it still knows the signature we paged from, and it refuses to move on from a node that does not
show the place we had read to. Because nodes index a block's transactions after they finalize it, each read goes back
`OVERLAP_SLOTS` and shows what it finds there again; the caller recognises what it has by (signature, account).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import groupby

from billing.chain.errors import HistoryIncomplete
from billing.chain.history import history_since
from billing.chain.records import TransactionRecord
from billing.chain.rpc import HISTORY_PAGE, RpcClient

OVERLAP_SLOTS = 150  # a minute: far longer than a healthy node takes to index a block
TRANSACTIONS_PER_READ = 200  # bounds one job; the rest comes with the next read


@dataclass(frozen=True, slots=True)
class DepositCursor:
    """The newest transaction of the account that was read."""

    slot: int
    signature: str


@dataclass(frozen=True, slots=True)
class Credit:
    """One transaction that brought us tokens, or would have.

    Attributes:
        index: its place among the account's transactions of that slot, from 0.
        amount_micro: what our account holds more since; 0 where `failed`.
        references: read-only keys of the transaction, among which ours may be. They label, they prove nothing.
        senders: the owners of the accounts the tokens came from.
        memo: its memos, joined by newlines, or None. Text of a stranger.
        failed: the transaction is in a block, but moved nothing. Never to be credited.
    """

    signature: str
    slot: int
    index: int
    token_account: str
    mint: str
    amount_micro: int
    references: tuple[str, ...]
    senders: tuple[str, ...]
    memo: str | None
    block_time: int | None
    failed: bool


@dataclass(frozen=True, slots=True)
class CreditPage:
    """Credits oldest first, the cursor for the next read (None: the account has no history), and whether to read on."""

    credits: tuple[Credit, ...]
    cursor: DepositCursor | None
    more: bool


def credits_read(
    rpc: RpcClient,
    *,
    token_account: str,
    mint: str,
    cursor: DepositCursor | None,
    known: Collection[str] = frozenset(),
    limit: int = TRANSACTIONS_PER_READ,
    page_size: int = HISTORY_PAGE,
) -> CreditPage:
    """What reached `token_account` since the cursor, and again what lies within the overlap.

    Args:
        cursor: from the read before; None reads from the account's beginning.
        known: signatures the caller has dealt with; they are not fetched again.
        limit: stop after the slot in which this many transactions were fetched.

    Raises:
        HistoryIncomplete: the node does not show all; keep the cursor, ask another node or later.
        RpcUnavailable, RpcRefused: keep the cursor, try later.
    """
    floor = 0 if cursor is None else max(0, cursor.slot - OVERLAP_SLOTS)
    history = history_since(rpc, token_account, floor, page_size=page_size)
    if cursor is not None and all(entry.signature != cursor.signature for entry in history):
        raise HistoryIncomplete(f"{rpc.name} does not show {cursor.signature}, up to which {token_account} was read")
    credits: list[Credit] = []
    fetched, position = 0, cursor
    for slot, group in groupby(history, key=lambda entry: entry.slot):
        if fetched >= limit:
            return CreditPage(tuple(credits), position, more=True)
        is_new = cursor is None or slot > cursor.slot
        for index, entry in enumerate(group):
            if entry.signature not in known:
                fetched += is_new  # a full overlap alone must not stop the reader from getting ahead
                credits += _credits_of(_fetch(rpc, entry.signature), index, token_account, mint)
            if is_new:
                position = DepositCursor(slot, entry.signature)
    return CreditPage(tuple(credits), position, more=False)


def credit_confirmed_by(rpc: RpcClient, credit: Credit) -> bool:
    """Whether a second node has the same transaction finalized with the same effect."""
    record = rpc.transaction(credit.signature, commitment="finalized")
    return record is not None and credit in _credits_of(record, credit.index, credit.token_account, credit.mint)


def _fetch(rpc: RpcClient, signature: str) -> TransactionRecord:
    record = rpc.transaction(signature, commitment="finalized")
    if record is None:
        raise HistoryIncomplete(f"{rpc.name} lists {signature} and does not have it")
    return record


def _credits_of(record: TransactionRecord, index: int, token_account: str, mint: str) -> list[Credit]:
    """The credit a transaction makes, if any: none for what leaves us, stays equal or is of another mint."""
    failed = record.error is not None
    amount = 0 if failed else record.token_delta(token_account, mint)
    if amount <= 0 and not failed:
        return []
    senders = {change.owner: None for change in record.token_changes if change.mint == mint and change.delta < 0}
    return [
        Credit(
            signature=record.signature,
            slot=record.slot,
            index=index,
            token_account=token_account,
            mint=mint,
            amount_micro=amount,
            references=record.reference_keys,
            senders=tuple(owner for owner in senders if owner is not None),
            memo="\n".join(record.memos) or None,
            block_time=record.block_time,
            failed=failed,
        )
    ]

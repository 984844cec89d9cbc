"""A chain of blocks: production, the signing window, the mempool, rollbacks and forks.

An empty block costs nothing: its hash and slot follow from its height, so that only blocks with transactions are kept,
in memory as in the journal.
"""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import dataclass
from typing import Protocol

from solders.hash import Hash
from solders.transaction import VersionedTransaction

from billing.chain.localnet import encoding
from billing.chain.localnet.bank import Bank, Execution
from billing.chain.localnet.genesis import Genesis

MAX_PROCESSING_AGE = 150  # blocks for which a signed transaction can land
REMEMBERED_HASHES = 600  # enough to judge a blockhash from any node's point of view
BLOCKS_PER_SKIPPED_SLOT = 20  # one slot in 21 has no block, as on mainnet: slot and height must not be confused


@dataclass(frozen=True, slots=True)
class Finality:
    """How many blocks on top make a block confirmed, and how many make it final."""

    confirmed: int = 2
    finalized: int = 32

    def __post_init__(self) -> None:
        if not 0 < self.confirmed <= self.finalized:
            raise ValueError(f"finality: found {self}, allowed 0 < confirmed <= finalized")


@dataclass(frozen=True, slots=True)
class Block:
    """A block that holds transactions (raw bytes), and when it was made (Unix seconds)."""

    height: int
    time: int
    transactions: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Landed:
    """A transaction in a block, successful or failed."""

    signature: str
    height: int
    slot: int
    time: int
    transaction: VersionedTransaction
    memo: str | None
    execution: Execution


class BlockLog(Protocol):
    """Where a cluster writes what must survive a restart."""

    def block_made(self, height: int, block: Block | None) -> None: ...

    def rolled_back(self, height: int, branch: str) -> None: ...


def slot_of(height: int) -> int:
    return height + height // BLOCKS_PER_SKIPPED_SLOT


def height_before(slot: int) -> int:
    """The highest block at or below a slot."""
    rounds, rest = divmod(slot, BLOCKS_PER_SKIPPED_SLOT + 1)
    return rounds * BLOCKS_PER_SKIPPED_SLOT + min(rest, BLOCKS_PER_SKIPPED_SLOT - 1)


class Cluster:
    """One chain. Not safe for threads: the network's lock is held around every call."""

    def __init__(self, genesis: Genesis, finality: Finality, log: BlockLog | None = None) -> None:
        self.genesis = genesis
        self.finality = finality
        self.log = log
        self.bank = Bank(genesis.accounts)
        self.height = 0
        self.blocks: list[Block] = []
        self.landed: dict[str, Landed] = {}
        self.by_address: dict[str, list[str]] = {}
        self.mempool: dict[str, VersionedTransaction] = {}
        self.holding = False  # while true, nothing leaves the mempool: transactions land late or not at all
        self._branches: list[tuple[int, str]] = [(0, "main")]
        self._hash_order: deque[str] = deque()
        self._hash_heights: dict[str, int] = {}
        self._remember_hashes(1)

    # What the chain says

    def blockhash(self, height: int) -> str:
        branch = next(name for start, name in reversed(self._branches) if start <= height)
        seed = self.genesis.seed + f"|{branch}|{height}".encode()
        return str(Hash.from_bytes(hashlib.sha256(seed).digest()))

    def blockhash_height(self, blockhash: str) -> int | None:
        """The height of a recent blockhash, or None if it is old or of another chain."""
        return self._hash_heights.get(blockhash)

    def can_process(self, blockhash: str, parent: int) -> bool:
        """Whether a transaction signed with `blockhash` may go into the block on top of `parent`.

        The window is counted from the parent, so that a transaction can still land one block *after* the
        `lastValidBlockHeight` nodes announce. Whoever concludes "expired" has to leave room for that block.
        """
        height = self._hash_heights.get(blockhash)
        return height is not None and 0 <= parent - height <= MAX_PROCESSING_AGE

    # What happens to it

    def submit(self, transaction: VersionedTransaction) -> str:
        """Take a transaction into the mempool, unless it is in a block already. Nothing promises that it will land."""
        signature = str(transaction.signatures[0])
        if signature not in self.landed:
            self.mempool[signature] = transaction
        return signature

    def produce(self, now: int) -> int:
        """Make the next block from the mempool; give its height. Expired transactions are dropped silently."""
        parent, height = self.height, self.height + 1
        live = {
            signature: transaction
            for signature, transaction in self.mempool.items()
            if self.can_process(str(transaction.message.recent_blockhash), parent)
        }
        chosen = [] if self.holding else list(live.values())
        self.mempool = live if self.holding else {}
        raws = tuple(bytes(transaction) for transaction in chosen if self._execute(transaction, height, now))
        block = Block(height, now, raws) if raws else None
        self._append(height, block)
        if self.log is not None:
            self.log.block_made(height, block)
        return height

    def rollback(self, count: int, *, keep_pending: bool) -> int:
        """Drop the last `count` blocks, as when a minority fork dies; give the new height.

        Their transactions vanish, or with `keep_pending` wait in the mempool again. The blocks that follow have other
        hashes, so what was signed on the dead fork can never land.

        Raises:
            ValueError: a finalized block would be dropped.
        """
        allowed = min(self.finality.finalized - 1, self.height)
        if not 0 < count <= allowed:
            raise ValueError(f"blocks: found {count}, allowed 1 to {allowed} (finalized blocks stay)")
        height = self.height - count
        dead = [entry for entry in self.landed.values() if entry.height > height]
        branch = f"{self._branches[-1][1]}.{self.height}"
        self.rewind(height, branch)
        if keep_pending:
            self.mempool = {entry.signature: entry.transaction for entry in dead} | self.mempool
        if self.log is not None:
            self.log.rolled_back(height, branch)
        return height

    def rewind(self, height: int, branch: str) -> None:
        """Forget all above `height` and go on under another branch name. A height ahead of us is taken as reached."""
        self.bank.rewind(height)
        self.blocks = [block for block in self.blocks if block.height <= height]
        dead = {signature for signature, entry in self.landed.items() if entry.height > height}
        for signature in dead:
            del self.landed[signature]
        for signatures in self.by_address.values():
            signatures[:] = [signature for signature in signatures if signature not in dead]
        self.height = height
        self._branches.append((height + 1, branch))
        self._remember_hashes(REMEMBERED_HASHES)

    def fork(self, depth: int, branch: str) -> Cluster:
        """Another chain that shares all but the last `depth` blocks with this one, and has empty blocks since."""
        twin = Cluster(self.genesis, self.finality)
        twin._branches = list(self._branches)
        point = max(0, self.height - depth)
        for block in self.blocks:
            if block.height <= point:
                twin.replay(block)
        twin.rewind(point, branch)
        twin.advance_to(self.height)
        return twin

    def replay(self, block: Block) -> None:
        """Apply a block read from a journal or another chain.

        Raises:
            ValueError: its transactions do not land again, so the block is not one of this chain.
        """
        for raw in block.transactions:
            transaction = VersionedTransaction.from_bytes(raw)
            known = str(transaction.signatures[0]) in self.landed
            if known or not self._execute(transaction, block.height, block.time):
                raise ValueError(f"block {block.height}: a transaction does not land when replayed")
        self._append(block.height, block)

    def advance_to(self, height: int) -> None:
        """Add empty blocks up to `height`."""
        if height > self.height:
            self.height = height
            self._remember_hashes(REMEMBERED_HASHES)

    def _execute(self, transaction: VersionedTransaction, height: int, now: int) -> bool:
        slot = slot_of(height)
        execution = self.bank.execute(transaction, height=height, slot=slot, time=now)
        if not execution.landed:
            return False
        signature = str(transaction.signatures[0])
        memo = encoding.memo_field(transaction)
        self.landed[signature] = Landed(signature, height, slot, now, transaction, memo, execution)
        for key in transaction.message.account_keys:
            self.by_address.setdefault(str(key), []).append(signature)
        return True

    def _append(self, height: int, block: Block | None) -> None:
        missed = height - self.height
        self.height = height
        if block is not None:
            self.blocks.append(block)
        self._remember_hashes(min(missed, REMEMBERED_HASHES))

    def _remember_hashes(self, count: int) -> None:
        """Note the hashes of the last `count` blocks; after a rewind that is all of them, the old ones are wrong."""
        if count == REMEMBERED_HASHES:
            self._hash_order.clear()
            self._hash_heights.clear()
        for height in range(max(0, self.height - count + 1), self.height + 1):
            name = self.blockhash(height)
            self._hash_order.append(name)
            self._hash_heights[name] = height
        while len(self._hash_order) > REMEMBERED_HASHES:
            del self._hash_heights[self._hash_order.popleft()]

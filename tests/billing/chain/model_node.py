"""Nodes of an imagined chain, for tests that need hundreds of them: what a node may say, and every way it may be wrong.

``Chain`` is the truth about one token account. A ``Node`` answers the two calls of the deposits' reader from it, with its own
faults. The real protocol, with real transactions, is tried against the local network (test_deposits.py here and above).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from solders.keypair import Keypair

from billing.chain.records import AddressSignature, TokenChange, TransactionRecord

VAULT, OWNER, MINT = "vault-account", "vault-owner", "mint"


@dataclass(frozen=True)
class Transaction:
    """One transaction that touches the vault. ``moved``: what each of its transfers adds (or takes, negative)."""

    signature: str
    slot: int
    moved: tuple[int, ...]
    references: tuple[str, ...]
    failed: bool = False

    @property
    def gained(self) -> int:
        return 0 if self.failed else sum(self.moved)


@dataclass
class Chain:
    """Finalized transactions, oldest first."""

    transactions: list[Transaction] = field(default_factory=list)
    slot: int = 1_000

    def add(self, moved: Sequence[int], references: Sequence[str], *, failed: bool = False) -> Transaction:
        signature = str(Keypair().sign_message(b"x"))
        made = Transaction(signature, self.slot, tuple(moved), tuple(references), failed)
        self.transactions.append(made)
        return made


@dataclass
class Node:
    """One endpoint. ``page``: the most it lists at once, whatever is asked for."""

    chain: Chain
    name: str
    page: int = 3
    behind: int = 0
    """Slots that it has not heard of yet."""
    unlisted: set[str] = field(default_factory=set)
    """Not in its index (yet)."""
    hollow: set[str] = field(default_factory=set)
    """Listed, and not there when asked for."""
    lies: dict[str, int] = field(default_factory=dict)
    """Signature → another amount than was moved."""
    doubles: bool = False
    """Lists everything twice."""
    shuffles: int = 0
    """Seed of another order inside each slot; 0: as it was."""
    swaps: bool = False
    """Lists neighbours in the wrong order, even of two slots."""

    def heal(self) -> None:
        self.behind, self.shuffles, self.doubles, self.swaps = 0, 0, False, False
        for faults in (self.unlisted, self.hollow, self.lies):
            faults.clear()

    def signatures_for_address(
        self, address: str, *, commitment: str, before: str | None = None, limit: int = 1_000
    ) -> tuple[AddressSignature, ...]:
        listed = self._listing()
        if before is not None:
            places = [place for place, each in enumerate(listed) if each.signature == before]
            listed = listed[places[-1] + 1 :] if places else []
        return tuple(
            AddressSignature(each.signature, each.slot, "failed" if each.failed else None, None, None)
            for each in listed[: min(limit, self.page)]
        )

    def transaction(self, signature: str, *, commitment: str) -> TransactionRecord | None:
        for each in self._known():
            if each.signature == signature and signature not in self.hollow:
                return self._record(each)
        return None

    def _known(self) -> list[Transaction]:
        return [each for each in self.chain.transactions if each.slot <= self.chain.slot - self.behind]

    def _listing(self) -> list[Transaction]:
        """Newest first."""
        found = [each for each in self._known() if each.signature not in self.unlisted]
        if self.shuffles:
            order = random.Random(self.shuffles)
            found = sorted(found, key=lambda each: (each.slot, order.random()))
        found = found[::-1]
        if self.swaps:
            for place in range(0, len(found) - 1, 2):
                found[place], found[place + 1] = found[place + 1], found[place]
        return [each for each in found for _ in range(2 if self.doubles else 1)]

    def _record(self, each: Transaction) -> TransactionRecord:
        amount = self.lies.get(each.signature, each.gained)
        before = 10**15
        changes = (
            TokenChange(VAULT, MINT, OWNER, before, before + amount),
            TokenChange("payer-account", MINT, "payer", before, before - amount),
        )
        return TransactionRecord(
            signature=each.signature,
            slot=each.slot,
            block_time=None,
            error="failed" if each.failed else None,
            fee_lamports=5_000,
            raw=b"",
            signers=("payer",),
            account_keys=(),
            reference_keys=each.references,
            memos=(),
            token_changes=() if each.failed else changes,
            lamports=(),
        )

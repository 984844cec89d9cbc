"""One endpoint: how much of the chain it sees, what it forgets, and what it does wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from solders.account import Account
from solders.pubkey import Pubkey

from billing.chain.localnet.cluster import Cluster, Landed, slot_of
from billing.chain.localnet.faults import FaultPlan

COMMITMENTS = ("processed", "confirmed", "finalized")
STATUS_CACHE_BLOCKS = 300  # how far back a status is known without searching the history


class Node:
    """A node's view of a chain.

    Attributes:
        cluster: the chain it follows; another one while it lives on a fork.
        lag: how many blocks it is behind.
        first_height: the oldest block it still has; older ones were pruned.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.lag = 0
        self.first_height = 0
        self.faults = FaultPlan()
        self.calls: Counter[str] = Counter()

    def height_at(self, commitment: str) -> int:
        """The height of the newest block with that commitment, as far as this node knows."""
        finality = self.cluster.finality
        depth = {"processed": 0, "confirmed": finality.confirmed, "finalized": finality.finalized}[commitment]
        return max(0, self.cluster.height - self.lag - depth)

    def slot_at(self, commitment: str) -> int:
        return slot_of(self.height_at(commitment))

    def account(self, key: Pubkey, commitment: str) -> Account | None:
        return self.cluster.bank.account(key, self.height_at(commitment))

    def commitment_of(self, landed: Landed) -> str:
        for commitment in reversed(COMMITMENTS):
            if landed.height <= self.height_at(commitment):
                return commitment
        raise LookupError(f"{landed.signature} is ahead of this node")

    def landed(self, signature: str, commitment: str) -> Landed | None:
        """A transaction in a block of at least that commitment which this node has."""
        found = self.cluster.landed.get(signature)
        if found is None or not self.first_height <= found.height <= self.height_at(commitment):
            return None
        return found

    def history(self, address: str, commitment: str) -> Iterator[Landed]:
        """An address's transactions, newest first."""
        for signature in reversed(self.cluster.by_address.get(address, [])):
            found = self.landed(signature, commitment)
            if found is not None:
                yield found

    def in_status_cache(self, landed: Landed) -> bool:
        return self.height_at("processed") - landed.height <= STATUS_CACHE_BLOCKS

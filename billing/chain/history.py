"""Reading an address's history without being fooled by a node that has forgotten part of it."""

from __future__ import annotations

from collections.abc import Iterator

from billing.chain.errors import HistoryIncomplete
from billing.chain.records import AddressSignature
from billing.chain.rpc import HISTORY_PAGE, RpcClient


def history_since(
    rpc: RpcClient, address: str, slot: int, *, page_size: int = HISTORY_PAGE
) -> tuple[AddressSignature, ...]:
    """The finalized history of `address` from `slot` on, oldest first. Every slot in it is whole.

    Raises:
        HistoryIncomplete: the node broke off before it reached `slot` or proved that there is nothing older.
    """
    found: dict[str, AddressSignature] = {}
    for entry in _newest_first(rpc, address, page_size):
        if entry.slot < slot:
            break
        found[entry.signature] = entry
    return tuple(reversed(found.values()))


def _newest_first(rpc: RpcClient, address: str, page_size: int) -> Iterator[AddressSignature]:
    before: str | None = None
    while page := rpc.signatures_for_address(address, commitment="finalized", before=before, limit=page_size):
        yield from page
        before = page[-1].signature
    # A node that does not know `before` gives an empty page as well, and then the rest is not nothing but unknown.
    if before is not None and rpc.transaction(before, commitment="finalized") is None:
        raise HistoryIncomplete(f"{rpc.name} no longer knows {before}, its history of {address} breaks off there")

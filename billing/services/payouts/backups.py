"""Do the books know what the signer signed last? If not they come from a backup, and owe what may be paid already."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from billing.chain.history import history_since
from billing.chain.transactions import payout_ids_in_memo
from billing.models import ChainMatch, Payout
from billing.services.network import Network

RESTORED = "the books do not know what was signed last: they come from a backup"


def books_behind(net: Network, latest: dict[str, Any] | None) -> bool:
    """True when the journal's latest entry is on chain or of a payout that is gone, and nobody has matched the chain since.

    An entry alone proves nothing: a worker that died between signing and recording leaves one whose bytes never left it.
    Raises RpcError, HistoryIncomplete.
    """
    if latest is None:
        return False
    signed_at = datetime.fromtimestamp(latest["at"], UTC)
    payout = Payout.objects.filter(pk=latest["payout"]).first()
    if payout is None:
        return not ChainMatch.objects.filter(created_at__gt=signed_at, open=0).exists()
    known = (sha256(bytes(message)).hexdigest() for message in payout.attempts.values_list("message", flat=True))
    if latest["digest"] in known or payout.attempts.filter(state="settled").exists():
        return False
    return any(
        entry.error is None and payout.pk in payout_ids_in_memo(entry.memo)
        for node in (net.primary, net.second)
        for entry in history_since(node, net.hot_wallet, 0)
    )

"""The signer of this process: the key file in development. Only the money worker gets here."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from pathlib import Path

from django.conf import settings

from billing.chain.errors import KeyFileRefused
from billing.chain.signer import KeyFileSigner, Signer, SignerPolicy
from billing.selectors.policies import policy_value
from billing.services.network import Network, NetworkUnavailable


def payout_signer(net: Network, now: datetime) -> Signer:
    """Raises NetworkUnavailable: no key file, a refused one, or the key of another wallet than the pinned one."""
    if not settings.SOLANA_HOT_WALLET_KEY_FILE:
        raise NetworkUnavailable("SOLANA_HOT_WALLET_KEY_FILE is not set: this process cannot sign.")
    limit = policy_value("payout_limit_micro", now)
    try:
        signer = _open(settings.SOLANA_HOT_WALLET_KEY_FILE, net.mint, net.hot_account, limit)
    except KeyFileRefused as error:
        raise NetworkUnavailable(f"SOLANA_HOT_WALLET_KEY_FILE: {error}") from error
    if signer.public_key() != net.hot_wallet:
        raise NetworkUnavailable(f"SOLANA_HOT_WALLET: found {net.hot_wallet}, the key is {signer.public_key()}'s.")
    return signer


@lru_cache(maxsize=4)
def _open(path: str, mint: str, source_account: str, limit_micro: int) -> Signer:
    return KeyFileSigner(
        Path(path), SignerPolicy(mint=mint, source_account=source_account, payout_limit_micro=limit_micro)
    )

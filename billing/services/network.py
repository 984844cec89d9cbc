"""The Solana network this installation works with: two endpoints, pinned by genesis hash and mint."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache

from django.conf import settings

from billing.chain.errors import ChainError, RpcError
from billing.chain.rpc import RpcClient
from billing.chain.transactions import token_account_address
from core.errors import DomainError


class NetworkUnavailable(DomainError):
    """The chain cannot be asked now (or is not configured); nothing is known and nothing was done (HTTP 503)."""

    code = "network_unavailable"
    status = 503


@dataclass(frozen=True)
class Network:
    """Two endpoints of one network and our addresses on it. Addresses are base58."""

    primary: RpcClient
    second: RpcClient
    genesis_hash: str
    mint: str
    vault_owner: str
    vault_account: str
    hot_wallet: str
    hot_account: str

    @property
    def ours(self) -> frozenset[str]:
        """What must never be a payout destination."""
        found = (self.mint, self.vault_owner, self.vault_account, self.hot_wallet, self.hot_account)
        return frozenset(found)


def network() -> Network:
    """The pinned network. Raises NetworkUnavailable: not configured, unreachable, or another network than the pinned one."""
    missing = [
        name
        for name in (
            "SOLANA_RPC_URL",
            "SOLANA_GENESIS_HASH",
            "SOLANA_USDC_MINT",
            "SOLANA_VAULT_OWNER",
            "SOLANA_HOT_WALLET",
        )
        if not getattr(settings, name)
    ]
    if missing:
        raise NetworkUnavailable(f"{', '.join(missing)}: not set, so there is no chain to talk to.")
    if settings.SOLANA_SECOND_RPC_URL == settings.SOLANA_RPC_URL and not settings.DEMO:
        raise NetworkUnavailable(
            "SOLANA_SECOND_RPC_URL: found the first endpoint again; allowed: another one, since two have to agree."
        )
    try:
        # A client is not shared over a fork, so the process is part of the key. A failure is not remembered.
        return _open(
            os.getpid(),
            settings.SOLANA_RPC_URL,
            settings.SOLANA_SECOND_RPC_URL,
            settings.SOLANA_GENESIS_HASH,
            settings.SOLANA_USDC_MINT,
            settings.SOLANA_VAULT_OWNER,
            settings.SOLANA_HOT_WALLET,
        )
    except RpcError as error:
        raise NetworkUnavailable(f"The chain gives no answer: {error}") from error


@lru_cache(maxsize=4)
def _open(
    process: int, url: str, second_url: str, genesis_hash: str, mint: str, vault_owner: str, hot_wallet: str
) -> Network:
    primary, second = RpcClient(url), RpcClient(second_url)
    for client in (primary, second):
        found = client.genesis_hash()
        if found != genesis_hash:
            raise NetworkUnavailable(f"{client.name}: found genesis hash {found}, pinned is {genesis_hash}.")
    try:
        vault_account, hot_account = token_account_address(vault_owner, mint), token_account_address(hot_wallet, mint)
    except (ChainError, ValueError) as error:
        raise NetworkUnavailable(f"SOLANA_VAULT_OWNER, SOLANA_USDC_MINT, SOLANA_HOT_WALLET: {error}") from error
    return Network(primary, second, genesis_hash, mint, vault_owner, vault_account, hot_wallet, hot_account)

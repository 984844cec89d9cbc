"""The first state of a local network. Its hash names the network, as on Solana."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from dataclasses import dataclass
from typing import Any

from solders.account import Account
from solders.hash import Hash
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.token.state import Mint, TokenAccount, TokenAccountState

from billing.chain.instructions import (
    SYSTEM_PROGRAM,
    TOKEN_ACCOUNT_RENT_LAMPORTS,
    TOKEN_PROGRAM,
    USDC_DECIMALS,
    token_account_of,
)
from billing.chain.localnet.keys import NetworkKeys

LAMPORTS_PER_SOL = 10**9
MICRO_PER_USDC = 10**6
MINT_RENT_LAMPORTS = 1_461_600  # rent exemption of a mint's 82 bytes

FAUCET_LAMPORTS = 1_000_000 * LAMPORTS_PER_SOL
HOT_WALLET_LAMPORTS = 100 * LAMPORTS_PER_SOL  # fees and rents of some 48,000 payouts to new accounts
HOT_WALLET_FLOAT_MICRO = 100_000 * MICRO_PER_USDC  # more than a demo pays out, less than looks like a default
PETTY_LAMPORTS = LAMPORTS_PER_SOL


@dataclass(frozen=True, slots=True)
class Genesis:
    """A seed that makes the network unlike any other, the addresses that play a part in it, and its first accounts."""

    seed: bytes
    roles: dict[str, str]
    accounts: dict[str, Account]

    def to_json(self) -> dict[str, Any]:
        return {
            "seed": self.seed.hex(),
            "roles": self.roles,
            "accounts": {
                address: {
                    "lamports": account.lamports,
                    "owner": str(account.owner),
                    "data": base64.b64encode(bytes(account.data)).decode(),
                }
                for address, account in self.accounts.items()
            },
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Genesis:
        accounts = {
            address: Account(
                entry["lamports"], base64.b64decode(entry["data"]), Pubkey.from_string(entry["owner"]), False, 0
            )
            for address, entry in value["accounts"].items()
        }
        return cls(bytes.fromhex(value["seed"]), value["roles"], accounts)

    @property
    def hash(self) -> str:
        canonical = json.dumps(self.to_json(), sort_keys=True, separators=(",", ":")).encode()
        return str(Hash.from_bytes(hashlib.sha256(canonical).digest()))


def demo_genesis(keys: NetworkKeys) -> Genesis:
    """USDC with a funded hot wallet and an empty vault; a second token of the same look, for wrong deposits."""
    authority = keys.mint_authority.pubkey()
    hot_wallet, vault_owner = keys.hot_wallet.pubkey(), keys.vault_owner.pubkey()
    mint, decoy = Keypair().pubkey(), Keypair().pubkey()
    vault_account, hot_account = token_account_of(vault_owner, mint), token_account_of(hot_wallet, mint)
    accounts = {
        keys.faucet.pubkey(): _wallet(FAUCET_LAMPORTS),
        authority: _wallet(PETTY_LAMPORTS),
        hot_wallet: _wallet(HOT_WALLET_LAMPORTS),
        vault_owner: _wallet(PETTY_LAMPORTS),
        mint: _mint(authority, supply=HOT_WALLET_FLOAT_MICRO),
        decoy: _mint(authority, supply=0),
        hot_account: _token_account(mint, hot_wallet, HOT_WALLET_FLOAT_MICRO),
        vault_account: _token_account(mint, vault_owner, 0),
    }
    roles = {
        "mint": mint,
        "decoy_mint": decoy,
        "mint_authority": authority,
        "faucet": keys.faucet.pubkey(),
        "hot_wallet": hot_wallet,
        "hot_wallet_token_account": hot_account,
        "vault_owner": vault_owner,
        "vault_token_account": vault_account,
    }
    return Genesis(
        seed=secrets.token_bytes(32),
        roles={name: str(key) for name, key in roles.items()},
        accounts={str(key): account for key, account in accounts.items()},
    )


def _wallet(lamports: int) -> Account:
    return Account(lamports, b"", SYSTEM_PROGRAM)


def _mint(authority: Pubkey, *, supply: int) -> Account:
    # Like USDC's own, it has a freeze authority: a recipient's account may be frozen between two payouts.
    state = Mint(authority, supply, USDC_DECIMALS, True, authority)
    return Account(MINT_RENT_LAMPORTS, bytes(state), TOKEN_PROGRAM)


def _token_account(mint: Pubkey, owner: Pubkey, amount: int) -> Account:
    state = TokenAccount(mint, owner, amount, None, TokenAccountState.Initialized, None, 0)
    return Account(TOKEN_ACCOUNT_RENT_LAMPORTS, bytes(state), TOKEN_PROGRAM)

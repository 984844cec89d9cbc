"""Where a payout may go: checks on a wallet address before it becomes a destination, and again before each payout.

The form of an address proves little: half of all single typos give another valid address, and the USDC mint itself lies
on the curve. So the chain is asked what is there, and who typed it still has to prove that the wallet is theirs.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from solders.pubkey import Pubkey
from solders.token.state import TokenAccount, TokenAccountState

from billing.chain.errors import ChainError
from billing.chain.instructions import MINT_SIZE, SYSTEM_PROGRAM, TOKEN_2022_PROGRAM, TOKEN_ACCOUNT_SIZE, TOKEN_PROGRAM
from billing.chain.records import AccountInfo
from billing.chain.rpc import RpcClient
from billing.chain.transactions import token_account_address

BASE58 = re.compile(r"[1-9A-HJ-NP-Za-km-z]+")
ADDRESS_TEXT_MAX = 44  # 32 bytes never take more base58 characters
# Accounts that take money and never give it back, although they look like wallets.
BURN_ADDRESSES = frozenset({"1nc1nerator11111111111111111111111111111111", str(SYSTEM_PROGRAM)})
TOKEN_PROGRAMS = (str(TOKEN_PROGRAM), str(TOKEN_2022_PROGRAM))


class DestinationProblem(StrEnum):
    """Why an address cannot be paid. The values are stable: they are stored and translated."""

    NOT_BASE58 = "not_base58"
    WRONG_LENGTH = "wrong_length"
    OFF_CURVE = "off_curve"
    OURS = "ours"
    BURN_ADDRESS = "burn_address"
    PROGRAM = "program"
    MINT = "mint"
    TOKEN_ACCOUNT = "token_account"
    NOT_A_WALLET = "not_a_wallet"
    HAS_DATA = "has_data"
    TOKEN_ACCOUNT_FROZEN = "token_account_frozen"
    TOKEN_ACCOUNT_TAKEN = "token_account_taken"


PROBLEM_TEXTS = {
    DestinationProblem.NOT_BASE58: "contains characters that no Solana address has",
    DestinationProblem.WRONG_LENGTH: "is not 32 bytes long",
    DestinationProblem.OFF_CURVE: "is a program's address, nobody holds a key to it",
    DestinationProblem.OURS: "belongs to this platform",
    DestinationProblem.BURN_ADDRESS: "destroys what is sent to it",
    DestinationProblem.PROGRAM: "is a program",
    DestinationProblem.MINT: "is a token's mint, not a wallet",
    DestinationProblem.TOKEN_ACCOUNT: "is a token account; the wallet that owns it is needed",
    DestinationProblem.NOT_A_WALLET: "is controlled by a program",
    DestinationProblem.HAS_DATA: "holds data, a wallet does not",
    DestinationProblem.TOKEN_ACCOUNT_FROZEN: "has a USDC account that its issuer froze",
    DestinationProblem.TOKEN_ACCOUNT_TAKEN: "has a USDC account that was given to somebody else",
}


class DestinationRefused(ChainError):
    """This address cannot be a payout destination; `problem` says why."""

    def __init__(self, address: str, problem: DestinationProblem) -> None:
        super().__init__(f"{address!r} {PROBLEM_TEXTS[problem]}")
        self.address = address
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Destination:
    """A wallet that can be paid. Creating its token account costs the payer rent, if it is missing."""

    address: str
    exists: bool
    token_account: str
    token_account_exists: bool


def address_check(address: str, *, ours: Collection[str] = ()) -> None:
    """The checks that need no network.

    Raises:
        DestinationRefused
    """
    if not BASE58.fullmatch(address):
        raise DestinationRefused(address, DestinationProblem.NOT_BASE58)
    if address in ours:
        raise DestinationRefused(address, DestinationProblem.OURS)
    if address in BURN_ADDRESSES:
        raise DestinationRefused(address, DestinationProblem.BURN_ADDRESS)
    try:
        if len(address) > ADDRESS_TEXT_MAX:
            raise ValueError("too long")
        key = Pubkey.from_string(address)
    except ValueError:
        raise DestinationRefused(address, DestinationProblem.WRONG_LENGTH) from None
    if not key.is_on_curve():
        raise DestinationRefused(address, DestinationProblem.OFF_CURVE)


def destination_check(rpc: RpcClient, address: str, *, mint: str, ours: Collection[str]) -> Destination:
    """All checks on a wallet address, at finalized state.

    Args:
        mint: the token that will be paid.
        ours: the platform's own wallets and token accounts.

    Raises:
        DestinationRefused: the address cannot be paid.
        RpcUnavailable, RpcRefused: the chain could not be asked; nothing is known.
    """
    address_check(address, ours=ours)
    account = rpc.account_info(address, commitment="finalized")
    if account is not None:
        problem = _problem_of(account)
        if problem is not None:
            raise DestinationRefused(address, problem)
    token_account = token_account_address(address, mint)
    held = rpc.account_info(token_account, commitment="finalized")
    token_account_exists = held is not None and held.owner == str(TOKEN_PROGRAM)
    if held is not None and token_account_exists:
        state = TokenAccount.from_bytes(held.data)
        if str(state.owner) != address:
            raise DestinationRefused(address, DestinationProblem.TOKEN_ACCOUNT_TAKEN)
        if state.state == TokenAccountState.Frozen:
            raise DestinationRefused(address, DestinationProblem.TOKEN_ACCOUNT_FROZEN)
    return Destination(address, account is not None, token_account, token_account_exists)


def _problem_of(account: AccountInfo) -> DestinationProblem | None:
    if account.executable:
        return DestinationProblem.PROGRAM
    if account.owner in TOKEN_PROGRAMS:
        if len(account.data) == MINT_SIZE:
            return DestinationProblem.MINT
        if len(account.data) >= TOKEN_ACCOUNT_SIZE and account.owner == str(TOKEN_PROGRAM):
            return DestinationProblem.TOKEN_ACCOUNT
        return DestinationProblem.NOT_A_WALLET
    if account.owner != str(SYSTEM_PROGRAM):
        return DestinationProblem.NOT_A_WALLET
    return DestinationProblem.HAS_DATA if account.data else None

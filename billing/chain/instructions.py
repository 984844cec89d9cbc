"""Program addresses and the few instructions we use, built from their published layouts.

Written out here, and not taken from a builder library, because the signer has to know every byte it signs; the tests
compare them with the builders of solana-py.
"""

from __future__ import annotations

import struct

from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey
from solders.token.associated import get_associated_token_address

SYSTEM_PROGRAM = Pubkey.from_string("11111111111111111111111111111111")
TOKEN_PROGRAM = Pubkey.from_string("TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA")
TOKEN_2022_PROGRAM = Pubkey.from_string("TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb")
ASSOCIATED_TOKEN_PROGRAM = Pubkey.from_string("ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL")
MEMO_PROGRAM = Pubkey.from_string("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr")
MEMO_V1_PROGRAM = Pubkey.from_string("Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo")
COMPUTE_BUDGET_PROGRAM = Pubkey.from_string("ComputeBudget111111111111111111111111111111")

USDC_DECIMALS = 6
MINT_SIZE = 82
TOKEN_ACCOUNT_SIZE = 165
TOKEN_ACCOUNT_RENT_LAMPORTS = 2_039_280  # rent exemption of a token account's 165 bytes; paid by who creates it
SIGNATURE_FEE_LAMPORTS = 5_000
PACKET_SIZE = 1_232  # IPv6 minimum MTU less headers: a larger transaction cannot travel
U64_MAX = 2**64 - 1

COMPUTE_UNIT_LIMIT_TAG = 2
COMPUTE_UNIT_PRICE_TAG = 3
CREATE_IDEMPOTENT_TAG = 1
TRANSFER_TAG = 3
SET_AUTHORITY_TAG = 6
FREEZE_TAG = 10
THAW_TAG = 11
TRANSFER_CHECKED_TAG = 12
MINT_TO_CHECKED_TAG = 14


def token_account_of(owner: Pubkey, mint: Pubkey) -> Pubkey:
    """The associated token account: where `owner` receives `mint`."""
    return get_associated_token_address(owner, mint)


def set_compute_unit_limit(units: int) -> Instruction:
    return Instruction(COMPUTE_BUDGET_PROGRAM, struct.pack("<BI", COMPUTE_UNIT_LIMIT_TAG, units), [])


def set_compute_unit_price(micro_lamports: int) -> Instruction:
    return Instruction(COMPUTE_BUDGET_PROGRAM, struct.pack("<BQ", COMPUTE_UNIT_PRICE_TAG, micro_lamports), [])


def memo(text: str, signer: Pubkey) -> Instruction:
    return Instruction(MEMO_PROGRAM, text.encode(), [AccountMeta(signer, is_signer=True, is_writable=True)])


def create_token_account_idempotent(payer: Pubkey, owner: Pubkey, mint: Pubkey) -> Instruction:
    """Create the associated token account unless it exists; fail if it exists and belongs to somebody else."""
    return Instruction(
        ASSOCIATED_TOKEN_PROGRAM,
        bytes([CREATE_IDEMPOTENT_TAG]),
        [
            AccountMeta(payer, is_signer=True, is_writable=True),
            AccountMeta(token_account_of(owner, mint), is_signer=False, is_writable=True),
            AccountMeta(owner, is_signer=False, is_writable=False),
            AccountMeta(mint, is_signer=False, is_writable=False),
            AccountMeta(SYSTEM_PROGRAM, is_signer=False, is_writable=False),
            AccountMeta(TOKEN_PROGRAM, is_signer=False, is_writable=False),
        ],
    )


def transfer_checked(
    source: Pubkey, mint: Pubkey, destination: Pubkey, owner: Pubkey, amount: int, references: tuple[Pubkey, ...] = ()
) -> Instruction:
    """Move `amount` base units; the program checks mint and decimals. References are Solana Pay's read-only labels."""
    accounts = [
        AccountMeta(source, is_signer=False, is_writable=True),
        AccountMeta(mint, is_signer=False, is_writable=False),
        AccountMeta(destination, is_signer=False, is_writable=True),
        AccountMeta(owner, is_signer=True, is_writable=False),
    ]
    accounts += [AccountMeta(reference, is_signer=False, is_writable=False) for reference in references]
    return Instruction(TOKEN_PROGRAM, struct.pack("<BQB", TRANSFER_CHECKED_TAG, amount, USDC_DECIMALS), accounts)


def mint_to_checked(mint: Pubkey, destination: Pubkey, authority: Pubkey, amount: int) -> Instruction:
    return Instruction(
        TOKEN_PROGRAM,
        struct.pack("<BQB", MINT_TO_CHECKED_TAG, amount, USDC_DECIMALS),
        [
            AccountMeta(mint, is_signer=False, is_writable=True),
            AccountMeta(destination, is_signer=False, is_writable=True),
            AccountMeta(authority, is_signer=True, is_writable=False),
        ],
    )


def freeze(account: Pubkey, mint: Pubkey, authority: Pubkey, *, thaw: bool = False) -> Instruction:
    return Instruction(
        TOKEN_PROGRAM,
        bytes([THAW_TAG if thaw else FREEZE_TAG]),
        [
            AccountMeta(account, is_signer=False, is_writable=True),
            AccountMeta(mint, is_signer=False, is_writable=False),
            AccountMeta(authority, is_signer=True, is_writable=False),
        ],
    )

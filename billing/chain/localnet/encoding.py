"""Values in the form in which Solana's JSON-RPC shows them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from solders.account import Account
from solders.instruction import CompiledInstruction
from solders.message import Message
from solders.token.state import Mint, TokenAccount
from solders.transaction import VersionedTransaction
from solders.transaction_metadata import InnerInstruction

from billing.chain.instructions import MEMO_PROGRAM, MEMO_V1_PROGRAM, TOKEN_ACCOUNT_SIZE, TOKEN_PROGRAM

TOKEN_STATE_OFFSET = 108  # where a token account says whether it is initialised (1) or frozen (2)
ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def base58_encode(data: bytes) -> str:
    number, digits = int.from_bytes(data, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        digits = ALPHABET[digit] + digits
    return "1" * (len(data) - len(data.lstrip(b"\0"))) + digits


def base58_decode(text: str) -> bytes:
    """Raises ValueError for a character outside the alphabet."""
    number = 0
    for character in text:
        number = number * 58 + ALPHABET.index(character)
    zeros = len(text) - len(text.lstrip("1"))
    return b"\0" * zeros + number.to_bytes((number.bit_length() + 7) // 8, "big")


def transaction_error(error: Any) -> Any:
    """A solders error object as the RPC writes it: a name, or a name with its details."""
    kind = type(error).__name__.removeprefix("TransactionError")
    if kind == "InstructionError":
        return {"InstructionError": [error.index, _instruction_error(error.err)]}
    if hasattr(error, "account_index"):
        return {kind: {"account_index": error.account_index}}
    if hasattr(error, "index"):
        return {kind: error.index}
    return repr(error).rpartition(".")[2]


def _instruction_error(error: Any) -> Any:
    if hasattr(error, "code"):
        return {"Custom": error.code}
    if hasattr(error, "value"):
        return {"BorshIoError": error.value}
    return repr(error).rpartition(".")[2]


def status_of(error: Any) -> dict[str, Any]:
    return {"Ok": None} if error is None else {"Err": error}


def account(value: Account | None) -> dict[str, Any] | None:
    if value is None:
        return None
    return {
        "data": [base64.b64encode(bytes(value.data)).decode(), "base64"],
        "executable": value.executable,
        "lamports": value.lamports,
        "owner": str(value.owner),
        "rentEpoch": value.rent_epoch,
        "space": len(value.data),
    }


def token_amount(amount: int, decimals: int) -> dict[str, Any]:
    whole, fraction = divmod(amount, 10**decimals)
    text = f"{whole}.{fraction:0{decimals}d}".rstrip("0").rstrip(".") if decimals else str(whole)
    return {"amount": str(amount), "decimals": decimals, "uiAmount": amount / 10**decimals, "uiAmountString": text}


def token_state(value: Account | None) -> TokenAccount | None:
    """The token account in an account, or None: not the token program's, of another size, or never initialised."""
    if value is None or value.owner != TOKEN_PROGRAM or len(value.data) != TOKEN_ACCOUNT_SIZE:
        return None
    data = bytes(value.data)
    return TokenAccount.from_bytes(data) if data[TOKEN_STATE_OFFSET] else None


def token_balance(index: int, state: TokenAccount, mint: Account | None) -> dict[str, Any]:
    """One entry of `preTokenBalances` or `postTokenBalances`."""
    return {
        "accountIndex": index,
        "mint": str(state.mint),
        "owner": str(state.owner),
        "programId": str(TOKEN_PROGRAM),
        "uiTokenAmount": token_amount(state.amount, mint_decimals(mint)),
    }


def mint_decimals(mint: Account | None) -> int:
    return 0 if mint is None else Mint.from_bytes(bytes(mint.data)).decimals


def compiled_instruction(step: CompiledInstruction, stack_height: int | None) -> dict[str, Any]:
    return {
        "programIdIndex": step.program_id_index,
        "accounts": list(bytes(step.accounts)),
        "data": base58_encode(bytes(step.data)),
        "stackHeight": stack_height,
    }


def inner_instructions(groups: Sequence[Sequence[InnerInstruction]]) -> list[dict[str, Any]]:
    return [
        {
            "index": index,
            "instructions": [compiled_instruction(step.instruction(), step.stack_height()) for step in group],
        }
        for index, group in enumerate(groups)
        if group
    ]


def transaction_json(transaction: VersionedTransaction) -> dict[str, Any]:
    """The "json" encoding of `getTransaction`."""
    message = transaction.message
    return {
        "signatures": [str(signature) for signature in transaction.signatures],
        "message": {
            "accountKeys": [str(key) for key in message.account_keys],
            "header": {
                "numRequiredSignatures": message.header.num_required_signatures,
                "numReadonlySignedAccounts": message.header.num_readonly_signed_accounts,
                "numReadonlyUnsignedAccounts": message.header.num_readonly_unsigned_accounts,
            },
            "recentBlockhash": str(message.recent_blockhash),
            "instructions": [compiled_instruction(step, None) for step in message.instructions],
        },
    }


def version_of(transaction: VersionedTransaction) -> str | int:
    return "legacy" if isinstance(transaction.message, Message) else 0


def memo_field(transaction: VersionedTransaction) -> str | None:
    """The memos of a transaction as `getSignaturesForAddress` joins them."""
    keys = transaction.message.account_keys
    texts = [
        bytes(step.data)
        for step in transaction.message.instructions
        if keys[step.program_id_index] in (MEMO_PROGRAM, MEMO_V1_PROGRAM)
    ]
    return "; ".join(f"[{len(text)}] {text.decode(errors='replace')}" for text in texts) or None

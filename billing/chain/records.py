"""What a node told us, as typed values. Parsing is strict: an answer of another form raises KeyError, TypeError or
ValueError, which the client turns into `RpcUnavailable`."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from solders.message import Message
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction

from billing.chain.instructions import MEMO_PROGRAM, MEMO_V1_PROGRAM

Commitment = Literal["processed", "confirmed", "finalized"]


@dataclass(frozen=True, slots=True)
class LatestBlockhash:
    """A blockhash to sign with, the last block height it is good for, and the slot the node answered at."""

    blockhash: str
    last_valid_block_height: int
    context_slot: int


@dataclass(frozen=True, slots=True)
class SignatureStatus:
    """Where a transaction stands. `error` is None if it succeeded; `confirmations` is None once finalized."""

    signature: str
    slot: int
    confirmations: int | None
    commitment: Commitment
    error: str | None


@dataclass(frozen=True, slots=True)
class SignatureStatuses:
    """One entry per signature asked for, in that order; None where the node knows nothing."""

    context_slot: int
    statuses: tuple[SignatureStatus | None, ...]


@dataclass(frozen=True, slots=True)
class AddressSignature:
    """One line of an address's history. `memo` is the node's joined form, "[length] text; …"."""

    signature: str
    slot: int
    error: str | None
    memo: str | None
    block_time: int | None


@dataclass(frozen=True, slots=True)
class TokenChange:
    """A token account's balance before and after a transaction, in base units; 0 where it did not exist."""

    account: str
    mint: str
    owner: str | None
    pre_amount: int
    post_amount: int

    @property
    def delta(self) -> int:
        return self.post_amount - self.pre_amount


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """A transaction that is in a block. A failed one (`error` set) has paid its fee and moved nothing else.

    `reference_keys` are the read-only, unsigned accounts that are no programs: where Solana Pay puts its labels.
    `lamports` holds (account, before, after) for every account.
    """

    signature: str
    slot: int
    block_time: int | None
    error: str | None
    fee_lamports: int
    raw: bytes
    signers: tuple[str, ...]
    account_keys: tuple[str, ...]
    reference_keys: tuple[str, ...]
    memos: tuple[str, ...]
    token_changes: tuple[TokenChange, ...]
    lamports: tuple[tuple[str, int, int], ...]

    def token_delta(self, account: str, mint: str) -> int:
        """How much of `mint` reached (or left, negative) `account`, in base units. 0 for a failed transaction."""
        return sum(change.delta for change in self.token_changes if (change.account, change.mint) == (account, mint))

    def created_token_account(self, account: str) -> bool:
        """True if the account came into being here, so that its rent was paid by the fee payer."""
        return any(key == account and before == 0 < after for key, before, after in self.lamports)


@dataclass(frozen=True, slots=True)
class AccountInfo:
    """An account's state. `data` is the whole of it."""

    address: str
    owner: str
    lamports: int
    executable: bool
    data: bytes
    context_slot: int


@dataclass(frozen=True, slots=True)
class TokenBalance:
    """A token account's amount in base units."""

    amount: int
    decimals: int
    context_slot: int


@dataclass(frozen=True, slots=True)
class Simulation:
    """A dry run. `error` is None where the transaction would succeed."""

    error: str | None
    logs: tuple[str, ...]
    units_consumed: int
    context_slot: int


def error_text(error: Any) -> str | None:
    """A node's transaction error as one string: the bare name, or compact JSON for structured ones."""
    if error is None or isinstance(error, str):
        return error
    return json.dumps(error, separators=(",", ":"))


def parse_status(signature: str, value: Mapping[str, Any] | None) -> SignatureStatus | None:
    if value is None:
        return None
    return SignatureStatus(
        signature=signature,
        slot=int(value["slot"]),
        confirmations=None if value["confirmations"] is None else int(value["confirmations"]),
        commitment=value["confirmationStatus"],
        error=error_text(value["err"]),
    )


def parse_address_signature(value: Mapping[str, Any]) -> AddressSignature:
    return AddressSignature(
        signature=str(value["signature"]),
        slot=int(value["slot"]),
        error=error_text(value["err"]),
        memo=value.get("memo"),
        block_time=value.get("blockTime"),
    )


def parse_account(address: str, context_slot: int, value: Mapping[str, Any] | None) -> AccountInfo | None:
    if value is None:
        return None
    data, encoding = value["data"]
    if encoding != "base64":
        raise ValueError(f"account data: found encoding {encoding}, asked for base64")
    return AccountInfo(
        address=address,
        owner=str(value["owner"]),
        lamports=int(value["lamports"]),
        executable=bool(value["executable"]),
        data=base64.b64decode(data),
        context_slot=context_slot,
    )


def parse_transaction(signature: str, value: Mapping[str, Any]) -> TransactionRecord:
    """Read `getTransaction` in base64 encoding; everything but the balances is taken from the signed bytes."""
    encoded, encoding = value["transaction"]
    if encoding != "base64":
        raise ValueError(f"transaction: found encoding {encoding}, asked for base64")
    raw = base64.b64decode(encoded)
    transaction = VersionedTransaction.from_bytes(raw)
    if str(transaction.signatures[0]) != signature:
        raise ValueError(f"asked for transaction {signature}, got {transaction.signatures[0]}")
    message, meta = transaction.message, value["meta"]
    loaded = meta.get("loadedAddresses") or {"writable": [], "readonly": []}
    static = [str(key) for key in message.account_keys]
    keys = (*static, *loaded["writable"], *loaded["readonly"])
    return TransactionRecord(
        signature=signature,
        slot=int(value["slot"]),
        block_time=value.get("blockTime"),
        error=error_text(meta["err"]),
        fee_lamports=int(meta["fee"]),
        raw=raw,
        signers=tuple(static[: message.header.num_required_signatures]),
        account_keys=keys,
        reference_keys=_reference_keys(message, static, loaded["readonly"]),
        memos=_memos(message),
        token_changes=_token_changes(keys, meta),
        lamports=tuple(
            (key, int(before), int(after))
            for key, before, after in zip(keys, meta["preBalances"], meta["postBalances"], strict=True)
        ),
    )


def _reference_keys(message: Any, static: Sequence[str], loaded_readonly: Sequence[str]) -> tuple[str, ...]:
    programs = {step.program_id_index for step in message.instructions}
    first = len(static) - message.header.num_readonly_unsigned_accounts
    candidates = [key for index, key in enumerate(static) if index >= first and index not in programs]
    return (*candidates, *loaded_readonly)


def _memos(message: Message | Any) -> tuple[str, ...]:
    keys: Sequence[Pubkey] = message.account_keys
    return tuple(
        bytes(step.data).decode(errors="replace")
        for step in message.instructions
        if step.program_id_index < len(keys) and keys[step.program_id_index] in (MEMO_PROGRAM, MEMO_V1_PROGRAM)
    )


def _token_changes(keys: Sequence[str], meta: Mapping[str, Any]) -> tuple[TokenChange, ...]:
    """Pair the balances before and after by account and mint; an account may be absent on either side."""
    before: dict[tuple[str, str], int] = {}
    after: dict[tuple[str, str], int] = {}
    owners: dict[tuple[str, str], str | None] = {}
    for side, amounts in (("preTokenBalances", before), ("postTokenBalances", after)):
        for balance in meta.get(side) or []:
            place = (keys[balance["accountIndex"]], balance["mint"])
            amounts[place] = int(balance["uiTokenAmount"]["amount"])
            owners[place] = balance.get("owner")
    return tuple(
        TokenChange(account, mint, owners[account, mint], before.get((account, mint), 0), after.get((account, mint), 0))
        for account, mint in owners
    )

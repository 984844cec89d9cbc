"""Transactions we build, and the one shape the signer accepts.

Payouts are *legacy* messages: they cannot use address tables, so that every account of a payout stands in the signed
bytes themselves. `parse_payout_message` takes the message apart, builds it again from what it found and compares the
bytes; whatever could be hidden in a message is thereby excluded.
"""

from __future__ import annotations

import re
import struct
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from solders.hash import Hash
from solders.instruction import CompiledInstruction, Instruction
from solders.keypair import Keypair
from solders.message import Message
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from billing.chain import instructions as program
from billing.chain.errors import PayoutShapeRefused, TransactionInvalid

PAYOUT_MEMO_PREFIX = "gpunex:payout:"
PAYOUT_MEMO = re.compile(re.escape(PAYOUT_MEMO_PREFIX) + r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")

# A payout that creates the recipient's account takes about 22,000 units; finding that account's address may take some
# tries of 1,500 units each. The unused rest costs nothing without a priority price and little with one.
PAYOUT_UNIT_LIMIT = 80_000
LAMPORTS_PER_MICRO_LAMPORTS = 1_000_000
VERSIONED_MESSAGE_BIT = 0x80


@dataclass(frozen=True, slots=True)
class SignedTransaction:
    """Bytes ready to send, and the signature that names them on chain (base58)."""

    raw: bytes
    signature: str


@dataclass(frozen=True, slots=True)
class PayoutShape:
    """What a payout message says. Addresses base58, amounts in micro-USDC."""

    payout_id: uuid.UUID
    hot_wallet: str
    source_account: str
    mint: str
    destination_owner: str
    destination_account: str
    amount_micro: int
    blockhash: str
    unit_limit: int
    unit_price_micro_lamports: int

    @property
    def fee_lamports(self) -> int:
        """The most this transaction can cost in fees, without the rent of a new token account."""
        priority = -(-self.unit_limit * self.unit_price_micro_lamports // LAMPORTS_PER_MICRO_LAMPORTS)
        return program.SIGNATURE_FEE_LAMPORTS + priority


def token_account_address(owner: str, mint: str) -> str:
    """The associated token account in which `owner` holds `mint`; all base58."""
    return str(program.token_account_of(Pubkey.from_string(owner), Pubkey.from_string(mint)))


def payout_memo(payout_id: uuid.UUID) -> str:
    return f"{PAYOUT_MEMO_PREFIX}{payout_id}"


def payout_ids_in_memo(memo: str | None) -> tuple[uuid.UUID, ...]:
    """The payouts named in a node's memo field, which joins memos as "[length] text; [length] text"."""
    return tuple(uuid.UUID(match) for match in PAYOUT_MEMO.findall(memo or ""))


def build_payout_message(
    *,
    payout_id: uuid.UUID,
    hot_wallet: str,
    mint: str,
    destination_owner: str,
    amount_micro: int,
    blockhash: str,
    source_account: str | None = None,
    unit_limit: int = PAYOUT_UNIT_LIMIT,
    unit_price_micro_lamports: int = 0,
) -> bytes:
    """The message of one payout: compute budget, memo, account if missing, checked transfer.

    Args:
        source_account: the token account paid from; the hot wallet's own if None.
        unit_price_micro_lamports: priority fee per compute unit, in millionths of a lamport.

    Raises:
        TransactionInvalid: an amount out of range, or an address that is none.
    """
    if not 0 < amount_micro <= program.U64_MAX:
        raise TransactionInvalid(f"amount_micro: found {amount_micro}, allowed 1 to {program.U64_MAX}")
    try:
        payer, mint_key, owner = (Pubkey.from_string(value) for value in (hot_wallet, mint, destination_owner))
        source = Pubkey.from_string(source_account) if source_account else program.token_account_of(payer, mint_key)
        recent = Hash.from_string(blockhash)
    except ValueError as error:
        raise TransactionInvalid(f"not an address or blockhash: {error}") from error
    destination = program.token_account_of(owner, mint_key)
    steps = [
        program.set_compute_unit_limit(unit_limit),
        program.set_compute_unit_price(unit_price_micro_lamports),
        program.memo(payout_memo(payout_id), payer),
        program.create_token_account_idempotent(payer, owner, mint_key),
        program.transfer_checked(source, mint_key, destination, payer, amount_micro),
    ]
    return _message_bytes(steps, payer, recent)


def build_deposit_message(
    *,
    owner: str,
    mint: str,
    recipient: str,
    amount_micro: int,
    blockhash: str,
    references: Sequence[str] = (),
    memo: str | None = None,
) -> bytes:
    """A customer's transfer as a Solana Pay wallet makes it: memo, then the checked transfer carrying the references.

    Args:
        recipient: the wallet that is paid (its token account is derived), not a token account.
    """
    if not 0 < amount_micro <= program.U64_MAX:
        raise TransactionInvalid(f"amount_micro: found {amount_micro}, allowed 1 to {program.U64_MAX}")
    payer, mint_key, wallet = (Pubkey.from_string(value) for value in (owner, mint, recipient))
    steps = [] if memo is None else [program.memo(memo, payer)]
    steps.append(
        program.transfer_checked(
            program.token_account_of(payer, mint_key),
            mint_key,
            program.token_account_of(wallet, mint_key),
            payer,
            amount_micro,
            tuple(Pubkey.from_string(reference) for reference in references),
        )
    )
    return _message_bytes(steps, payer, Hash.from_string(blockhash))


def assemble_transaction(message: bytes, signatures: Sequence[bytes]) -> SignedTransaction:
    """Join a message and its signatures (64 bytes each, in the order of the message's signers).

    Raises:
        TransactionInvalid: a signature does not fit the message, or the whole exceeds a packet.
    """
    transaction = VersionedTransaction.populate(
        Message.from_bytes(message), [Signature.from_bytes(signature) for signature in signatures]
    )
    if not all(transaction.verify_with_results()):
        raise TransactionInvalid("a signature does not fit the message")
    raw = bytes(transaction)
    if len(raw) > program.PACKET_SIZE:
        raise TransactionInvalid(f"transaction size: found {len(raw)} bytes, allowed {program.PACKET_SIZE}")
    return SignedTransaction(raw=raw, signature=str(transaction.signatures[0]))


def unsigned_transaction(message: bytes) -> bytes:
    """A transaction with empty signatures, for a dry run: nobody can do anything with it."""
    parsed = Message.from_bytes(message)
    empty = [Signature.default()] * parsed.header.num_required_signatures
    return bytes(VersionedTransaction.populate(parsed, empty))


def sign_with_secret(message: bytes, secret: bytes) -> SignedTransaction:
    """Sign with a raw 64-byte key: the demo's customers and the local network's faucet. Payouts go through a Signer."""
    return assemble_transaction(message, [bytes(Keypair.from_bytes(secret).sign_message(message))])


def transaction_message(raw: bytes) -> bytes:
    """The message inside signed bytes."""
    return bytes(VersionedTransaction.from_bytes(raw).message)


def parse_payout_message(message: bytes) -> PayoutShape:
    """Read a payout message; refuse every other message.

    Raises:
        PayoutShapeRefused: naming what does not fit.
    """
    if not message or message[0] & VERSIONED_MESSAGE_BIT:
        raise PayoutShapeRefused("not_legacy", "only legacy messages are signed, they cannot refer to address tables")
    try:
        parsed = Message.from_bytes(message)
    except ValueError as error:
        raise PayoutShapeRefused("not_a_message", str(error)) from error
    keys = parsed.account_keys
    found = [_program_of(keys, step) for step in parsed.instructions]
    expected = [
        program.COMPUTE_BUDGET_PROGRAM,
        program.COMPUTE_BUDGET_PROGRAM,
        program.MEMO_PROGRAM,
        program.ASSOCIATED_TOKEN_PROGRAM,
        program.TOKEN_PROGRAM,
    ]
    if found != expected:
        raise PayoutShapeRefused("wrong_programs", f"found {[str(key) for key in found]}")
    try:
        shape = _read_shape(parsed, keys)
        rebuilt = build_payout_message(
            payout_id=shape.payout_id,
            hot_wallet=shape.hot_wallet,
            mint=shape.mint,
            destination_owner=shape.destination_owner,
            amount_micro=shape.amount_micro,
            blockhash=shape.blockhash,
            source_account=shape.source_account,
            unit_limit=shape.unit_limit,
            unit_price_micro_lamports=shape.unit_price_micro_lamports,
        )
    except (IndexError, ValueError, struct.error, TransactionInvalid) as error:
        raise PayoutShapeRefused("malformed", str(error)) from error
    if rebuilt != message:
        raise PayoutShapeRefused("not_canonical", "the same payout built again gives other bytes")
    return shape


def _message_bytes(steps: list[Instruction], payer: Pubkey, blockhash: Hash) -> bytes:
    return bytes(Message.new_with_blockhash(steps, payer, blockhash))


def _program_of(keys: Sequence[Pubkey], step: CompiledInstruction) -> Pubkey | None:
    return keys[step.program_id_index] if step.program_id_index < len(keys) else None


def _read_shape(parsed: Message, keys: Sequence[Pubkey]) -> PayoutShape:
    limit_step, price_step, memo_step, create_step, transfer_step = parsed.instructions
    _, unit_limit = struct.unpack("<BI", bytes(limit_step.data))
    _, unit_price = struct.unpack("<BQ", bytes(price_step.data))
    _, amount_micro, _ = struct.unpack("<BQB", bytes(transfer_step.data))
    memo_match = PAYOUT_MEMO.fullmatch(bytes(memo_step.data).decode())
    if memo_match is None:
        raise PayoutShapeRefused("wrong_memo", f"a payout's memo reads {PAYOUT_MEMO_PREFIX}<uuid>")
    source, mint, destination = (str(keys[index]) for index in bytes(transfer_step.accounts)[:3])
    return PayoutShape(
        payout_id=uuid.UUID(memo_match.group(1)),
        hot_wallet=str(keys[0]),
        source_account=source,
        mint=mint,
        destination_owner=str(keys[bytes(create_step.accounts)[2]]),
        destination_account=destination,
        amount_micro=amount_micro,
        blockhash=str(parsed.recent_blockhash),
        unit_limit=unit_limit,
        unit_price_micro_lamports=unit_price,
    )

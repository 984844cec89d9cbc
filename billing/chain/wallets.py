"""What customers' and providers' wallets do with us: sign a challenge, follow a payment link."""

from __future__ import annotations

import secrets
from urllib.parse import quote, urlencode

from solders.keypair import Keypair
from solders.message import Message, MessageV0
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from billing.chain.instructions import USDC_DECIMALS
from billing.chain.transactions import VERSIONED_MESSAGE_BIT


def signature_is_valid(*, address: str, message: bytes, signature: str) -> bool:
    """Whether `signature` (base58, 64 bytes) over `message` was made with the key of the wallet `address`.

    Values of the wrong form are not valid; they raise nothing.
    """
    try:
        key, proof = Pubkey.from_string(address), Signature.from_string(signature)
    except ValueError:
        return False
    return key.is_on_curve() and proof.verify(key, message)


def transaction_signature(text: str) -> str:
    """A transaction's signature in its one form (base58 of 64 bytes). Raises ValueError for anything else."""
    return str(Signature.from_string(text.strip()))


def reads_as_transaction(message: bytes) -> bool:
    """Whether a text that wallets are asked to sign could be a transaction as well. Such a challenge must not go out."""
    versioned = bool(message) and bool(message[0] & VERSIONED_MESSAGE_BIT)
    for parse in (MessageV0.from_bytes if versioned else Message.from_bytes, VersionedTransaction.from_bytes):
        try:
            parse(message[1:] if parse is MessageV0.from_bytes else message)
        except ValueError:
            continue
        return True
    return False


def new_reference() -> str:
    """A fresh Solana Pay reference: an address nobody holds a key of, which labels one payment."""
    return str(Pubkey.from_bytes(secrets.token_bytes(32)))


def payment_link(
    *, recipient: str, mint: str, reference: str, amount_micro: int | None = None, label: str = "", memo: str = ""
) -> str:
    """A Solana Pay transfer request, as a link or for a QR code.

    Args:
        recipient: the wallet to pay, not its token account.
        amount_micro: None lets the customer choose.
    """
    query = {"spl-token": mint, "reference": reference}
    if amount_micro is not None:
        whole, fraction = divmod(amount_micro, 10**USDC_DECIMALS)
        query["amount"] = f"{whole}.{fraction:0{USDC_DECIMALS}d}".rstrip("0").rstrip(".")
    query |= {name: value for name, value in (("label", label), ("memo", memo)) if value}
    return f"solana:{recipient}?{urlencode(query, quote_via=quote)}"


def sign_challenge(*, message: bytes, secret: bytes) -> str:
    """What a wallet does with a challenge: for the demo's and the tests' wallets. `secret` is the 64-byte key."""
    return str(Keypair.from_bytes(secret).sign_message(message))

"""Who signs payouts. A signer reads what it signs and refuses everything but our payout within its limits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from billing.chain.errors import PayoutShapeRefused
from billing.chain.keyfile import read_key_file
from billing.chain.signing_journal import SigningJournal
from billing.chain.transactions import PayoutShape, parse_payout_message

# 0.001 SOL: two hundred times the base fee. A bug in the priority price must not drain the fee account.
FEE_LIMIT_LAMPORTS = 1_000_000


class Signer(Protocol):
    """A key that signs payout messages: a file in development, a service of its own in production."""

    def public_key(self) -> str:
        """The hot wallet's address, base58."""
        ...

    def sign(self, message: bytes) -> bytes:
        """The 64-byte signature of a payout message.

        Raises:
            PayoutShapeRefused: the message is anything else, or exceeds a limit.
        """
        ...


@dataclass(frozen=True, slots=True)
class SignerPolicy:
    """What a signer is willing to sign: from which account, of which mint, how much at most."""

    mint: str
    source_account: str
    payout_limit_micro: int
    fee_limit_lamports: int = FEE_LIMIT_LAMPORTS

    def check(self, message: bytes, hot_wallet: str) -> PayoutShape:
        """Parse the message and hold it against the policy.

        Raises:
            PayoutShapeRefused: with the name of the first rule it breaks.
        """
        shape = parse_payout_message(message)
        if shape.hot_wallet != hot_wallet:
            raise PayoutShapeRefused("wrong_hot_wallet", f"found {shape.hot_wallet}, this key is {hot_wallet}")
        if shape.mint != self.mint:
            raise PayoutShapeRefused("wrong_mint", f"found {shape.mint}, allowed {self.mint}")
        if shape.source_account != self.source_account:
            raise PayoutShapeRefused("wrong_source", f"found {shape.source_account}, allowed {self.source_account}")
        if shape.destination_account == self.source_account:
            raise PayoutShapeRefused("pays_itself", f"{shape.destination_account} is our own account")
        if shape.amount_micro > self.payout_limit_micro:
            raise PayoutShapeRefused(
                "amount_over_limit", f"found {shape.amount_micro} micro-USDC, allowed {self.payout_limit_micro}"
            )
        if shape.fee_lamports > self.fee_limit_lamports:
            raise PayoutShapeRefused(
                "fee_over_limit", f"found {shape.fee_lamports} lamports, allowed {self.fee_limit_lamports}"
            )
        return shape


class KeyFileSigner:
    """Signs with a key file that only we can read. For development and the demo.

    Args:
        journal: the signer's own memory of what it signed, with its caps; None does without.

    Raises:
        KeyFileRefused: on construction, if the file is missing, not ours, or open to others.
    """

    def __init__(self, path: Path, policy: SignerPolicy, journal: SigningJournal | None = None) -> None:
        self._keypair = read_key_file(path)
        self._policy = policy
        self._journal = journal

    def __repr__(self) -> str:
        return f"<KeyFileSigner {self.public_key()}>"

    def public_key(self) -> str:
        return str(self._keypair.pubkey())

    def sign(self, message: bytes) -> bytes:
        shape = self._policy.check(message, self.public_key())
        if self._journal is not None:
            self._journal.record(shape, message)
        return bytes(self._keypair.sign_message(message))

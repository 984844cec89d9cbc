"""The signer of this process: the key file, and the journal of what it signed. Only the money worker gets here."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings

from billing.chain.errors import KeyFileRefused
from billing.chain.signer import KeyFileSigner, Signer, SignerPolicy
from billing.chain.signing_journal import SigningCaps, SigningJournal
from billing.selectors.policies import policy_value
from billing.services.network import Network, NetworkUnavailable


def payout_signer(net: Network, now: datetime) -> Signer:
    """A signer with its limits of this instant, over the one journal that every process of this key shares.

    Raises NetworkUnavailable: no key file, a refused one, or the key of another wallet than the pinned one.
    """
    if not settings.SOLANA_HOT_WALLET_KEY_FILE:
        raise NetworkUnavailable("SOLANA_HOT_WALLET_KEY_FILE is not set: this process cannot sign.")
    policy = SignerPolicy(
        mint=net.mint, source_account=net.hot_account, payout_limit_micro=policy_value("payout_limit_micro", now)
    )
    caps = SigningCaps(
        day_micro=policy_value("signing_day_limit_micro", now),
        destination_day_micro=policy_value("signing_destination_day_limit_micro", now),
    )
    journal = _journal(journal_path())
    journal.limit(caps, int(now.timestamp()))
    try:
        signer = KeyFileSigner(Path(settings.SOLANA_HOT_WALLET_KEY_FILE), policy, journal)
    except KeyFileRefused as error:
        raise NetworkUnavailable(f"SOLANA_HOT_WALLET_KEY_FILE: {error}") from error
    if signer.public_key() != net.hot_wallet:
        raise NetworkUnavailable(f"SOLANA_HOT_WALLET: found {net.hot_wallet}, the key is {signer.public_key()}'s.")
    return signer


def signed_last() -> dict[str, Any] | None:
    """What the journal says was signed last. Raises NetworkUnavailable: it cannot be read."""
    try:
        return _journal(journal_path()).latest()
    except (KeyFileRefused, OSError) as error:
        raise NetworkUnavailable(f"SOLANA_SIGNING_JOURNAL: {error}") from error


def journal_path() -> Path:
    """Beside the key, unless the setting names another place."""
    return Path(settings.SOLANA_SIGNING_JOURNAL or f"{settings.SOLANA_HOT_WALLET_KEY_FILE}.journal")


class _Journal(SigningJournal):
    """Kept between passes, because it reads its file once and then only what is new."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, SigningCaps(0, 0), lambda: self._at)
        self._at = 0

    def limit(self, caps: SigningCaps, at: int) -> None:
        self._caps, self._at = caps, at


@lru_cache(maxsize=4)
def _journal(path: Path) -> _Journal:
    return _Journal(path)

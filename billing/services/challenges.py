"""Texts that a wallet signs to prove that somebody holds its key."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from datetime import datetime
from urllib.parse import urlsplit

from django.conf import settings

from billing.chain.wallets import reads_as_transaction

NONCE_BYTES = 16

# English and untranslated on purpose: these very bytes are signed.
_TEXT = """\
{domain} asks you to {asks}.

Purpose: {purpose}
Domain: {domain}
{lines}
Network: {genesis_hash}
Nonce: {nonce}
Expires: {expires}

Signing this moves no money and approves no transaction."""


def challenge_text(
    *, asks: str, purpose: str, lines: Mapping[str, str], genesis_hash: str, expires_at: datetime
) -> str:
    """A text for one purpose, one network, one time (128-bit nonce); ``lines``: who and what it is about."""
    text = _TEXT.format(
        asks=asks,
        purpose=purpose,
        lines="\n".join(f"{name}: {value}" for name, value in lines.items()),
        domain=urlsplit(settings.ORIGIN).hostname,
        genesis_hash=genesis_hash,
        nonce=secrets.token_hex(NONCE_BYTES),
        expires=expires_at.isoformat(timespec="seconds"),
    )
    if reads_as_transaction(text.encode()):
        raise AssertionError("a challenge must never be a transaction")
    return text

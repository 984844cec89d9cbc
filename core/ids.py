"""Public identifiers: UUIDv7 (RFC 9562, section 5.7), so that rows created together lie together in an index."""

from __future__ import annotations

import os
import secrets
import time
from hashlib import sha256
from uuid import UUID

SECRET_BYTES = 32
"""256 bits: guessing is hopeless, so a fast hash is enough to store it."""


def uuid7() -> UUID:
    """A time-ordered UUID: 48 bits of Unix milliseconds, 74 random bits, version 7, variant RFC."""
    milliseconds = time.time_ns() // 1_000_000
    random = int.from_bytes(os.urandom(10), "big")
    value = (milliseconds & ((1 << 48) - 1)) << 80
    value |= 0x7 << 76
    value |= ((random >> 62) & 0xFFF) << 64
    value |= 0b10 << 62
    value |= random & ((1 << 62) - 1)
    return UUID(int=value)


def secret_new(prefix: str) -> str:
    """A secret for showing once, e.g. ``gpxe_Zk…``. The prefix says what it opens, so that leaks can be found by search."""
    return f"{prefix}_{secrets.token_urlsafe(SECRET_BYTES)}"


def secret_hash(secret: str) -> bytes:
    """What we store instead of a 256-bit secret: its SHA-256 (32 bytes)."""
    return sha256(secret.encode()).digest()

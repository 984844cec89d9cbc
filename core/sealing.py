"""Encryption at rest of the few secrets we must be able to read again. The key comes from SECRET_KEY, not from the database.

``purpose`` separates uses: what was sealed for one cannot be opened as another.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from hashlib import sha256

from cryptography.fernet import Fernet
from django.conf import settings


def _box(purpose: str) -> Fernet:
    return Fernet(base64.urlsafe_b64encode(sha256(f"sealing:{purpose}:{settings.SECRET_KEY}".encode()).digest()))


def seal(purpose: str, values: Mapping[str, str]) -> bytes:
    return _box(purpose).encrypt(json.dumps(dict(values)).encode())


def unseal(purpose: str, sealed: bytes) -> dict[str, str]:
    """Raises cryptography.fernet.InvalidToken when the text was changed, or purpose or SECRET_KEY are others."""
    found: dict[str, str] = json.loads(_box(purpose).decrypt(bytes(sealed)))
    return found

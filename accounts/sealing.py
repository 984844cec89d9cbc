"""Encryption of the few secrets that wait for a mail to be sent. The key is not in the database: it comes from SECRET_KEY."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from hashlib import sha256

from cryptography.fernet import Fernet
from django.conf import settings


def _box() -> Fernet:
    return Fernet(base64.urlsafe_b64encode(sha256(b"accounts.sealing:" + settings.SECRET_KEY.encode()).digest()))


def seal(values: Mapping[str, str]) -> bytes:
    return _box().encrypt(json.dumps(dict(values)).encode())


def unseal(sealed: bytes | memoryview) -> dict[str, str]:
    """Raises cryptography.fernet.InvalidToken when the text was changed or SECRET_KEY is another one."""
    found: dict[str, str] = json.loads(_box().decrypt(bytes(sealed)))
    return found

"""Keyset cursors: the last row's sort values, signed. A cursor that was tampered with, or belongs to another listing
order, is refused with the field named."""

from __future__ import annotations

import base64
import hmac
import json
from hashlib import sha256

from django.conf import settings

from core.errors import Invalid

MAX_LENGTH = 512
_TAG_BYTES = 12


def _tag(body: bytes, scope: str) -> bytes:
    return hmac.new(settings.SECRET_KEY.encode(), b"cursor|" + scope.encode() + b"|" + body, sha256).digest()[
        :_TAG_BYTES
    ]


def cursor_encode(values: list[str | int | None], *, scope: str) -> str:
    """Pack the last row's key; ``scope`` names the list and its order, e.g. ``market:price``."""
    body = json.dumps(values, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(_tag(body, scope) + body).decode().rstrip("=")


def cursor_decode(text: str, *, scope: str, field: str = "cursor") -> list[str | int | None]:
    """Unpack what ``cursor_encode`` made for the same scope; anything else raises Invalid."""
    allowed = "the next_cursor of an earlier answer to the same query"
    shown = text[:40]
    if len(text) > MAX_LENGTH:
        raise Invalid.field(field, found=shown, allowed=allowed)
    try:
        raw = base64.urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4))
        tag, body = raw[:_TAG_BYTES], raw[_TAG_BYTES:]
        if not hmac.compare_digest(tag, _tag(body, scope)):
            raise ValueError("signature")
        values = json.loads(body)
    except ValueError:
        raise Invalid.field(field, found=shown, allowed=allowed) from None
    return list(values)

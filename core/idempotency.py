"""``Idempotency-Key`` for every POST that costs money: per principal, route and key, in PostgreSQL.

The same key with the same body gives the earlier answer; with another body it is refused; while the first is still
being answered, its twin is told so.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from django.db import connection, transaction

from core.errors import Conflict, Invalid
from core.models import IdempotencyKey

KEEP = timedelta(days=14)
MAX_LENGTH = 80

Answer = tuple[int, Any]
"""HTTP status and JSON body."""

_CLAIM = f"""
INSERT INTO {IdempotencyKey._meta.db_table} (principal, route, key, request_hash, created_at)
VALUES (%s, %s, %s, %s, %s) ON CONFLICT (principal, route, key) DO NOTHING
"""


def answer_once(
    *, principal: str, route: str, key: str | None, body: bytes, now: datetime, make: Callable[[], Answer]
) -> tuple[Answer, bool]:
    """Run ``make`` once per key, in one transaction with its record; returns (answer, replayed).

    An error that ``make`` raises rolls the record back with everything else, so the same key may be tried again.
    Without a key, ``make`` simply runs. Raises Invalid (a bad key) or Conflict ``idempotency_mismatch``.
    """
    if key is None:
        return make(), False
    if not key or len(key) > MAX_LENGTH or not key.isprintable():
        raise Invalid.field("Idempotency-Key", found=key[:40], allowed=f"1 to {MAX_LENGTH} printable characters")
    wanted = sha256(body).digest()
    with transaction.atomic():
        with connection.cursor() as cursor:
            # A twin in flight makes this INSERT wait until it commits or rolls back, so two never run side by side.
            cursor.execute(_CLAIM, [principal, route, key, wanted, now])
            claimed = cursor.rowcount == 1
        row = IdempotencyKey.objects.select_for_update().get(principal=principal, route=route, key=key)
        if not claimed:
            if bytes(row.request_hash) != wanted:
                raise Conflict(
                    "This Idempotency-Key was used with another body.",
                    code="idempotency_mismatch",
                    fields={"Idempotency-Key": "Use a new key for a new request."},
                )
            assert row.status is not None  # committed together with its answer
            return (row.status, row.body), True
        answer = make()
        IdempotencyKey.objects.filter(pk=row.pk).update(status=answer[0], body=answer[1])
    return answer, False

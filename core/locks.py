"""Locks, in one order: see docs/locking.md. All of them end with the transaction (PgBouncer in transaction mode)."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import TypeVar

from django.db import connection, models

Row = TypeVar("Row", bound=models.Model)


def _number(name: str) -> int:
    return int.from_bytes(sha256(name.encode()).digest()[:8], "big", signed=True)


def _in_transaction() -> None:
    if not connection.in_atomic_block:
        raise RuntimeError("a lock lives as long as its transaction: open one first")


def lock_name(name: str) -> None:
    """Wait for the transaction-level advisory lock of this name, e.g. ``payouts:run``."""
    _in_transaction()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_number(name)])


def lock_name_now(name: str) -> bool:
    """Take the advisory lock of this name if it is free; never wait."""
    _in_transaction()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [_number(name)])
        return bool(cursor.fetchone()[0])


def lock_rows(rows: models.QuerySet[Row], ids: Iterable[object] | None = None) -> list[Row]:
    """SELECT … FOR UPDATE in primary-key order, so that two transactions never wait for each other in a circle."""
    _in_transaction()
    chosen = rows if ids is None else rows.filter(pk__in=list(ids))
    return list(chosen.order_by("pk").select_for_update(of=("self",)))

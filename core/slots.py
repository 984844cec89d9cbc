"""Periodic verbs start by claiming their slot: whoever inserts the row does the work, everybody else goes home."""

from __future__ import annotations

from datetime import datetime

from django.db import connection

from core.models import Slot

_CLAIM = f"""
INSERT INTO {Slot._meta.db_table} (name, slot, claimed_at) VALUES (%s, %s, %s) ON CONFLICT (name, slot) DO NOTHING
"""


def slot_claim(name: str, slot: str, *, now: datetime) -> bool:
    """True for exactly one caller per (name, slot), however many beats fire.

    Call it inside the transaction that does the work: a crash then gives the slot back.
    """
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM, [name, slot, now])
        return cursor.rowcount == 1

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from django.db import connection

from core import clock
from core.slots import slot_claim


def test_ten_beats_claim_a_slot_once(committed_db: str) -> None:
    now = clock.now()

    def claim(_: int) -> bool:
        try:
            return slot_claim("payouts", "2026-W49", now=now)
        finally:
            connection.close()

    with ThreadPoolExecutor(10) as pool:
        assert sorted(pool.map(claim, range(10))) == [False] * 9 + [True]
    assert slot_claim("payouts", "2026-W50", now=now)

"""Checkpoints of the accounts that everybody posts to: their balance is a sum, and sums must not grow with the years."""

from __future__ import annotations

from datetime import datetime

from django.db import connection, transaction
from django.db.models import Max

from billing.models import Posting, PostingFence

_FENCE_PASSED = """
SELECT max(posting_id) FROM billing_postingfence
WHERE written_in < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
"""
_CHECKPOINTS = """
INSERT INTO billing_balancecheckpoint (account_id, posting_id, balance, at)
SELECT a.id, %(fence)s, coalesce(last.balance, 0) + fresh.total, %(now)s
FROM billing_account a
LEFT JOIN LATERAL (
    SELECT c.posting_id, c.balance FROM billing_balancecheckpoint c WHERE c.account_id = a.id
    ORDER BY c.posting_id DESC LIMIT 1) last ON true
CROSS JOIN LATERAL (
    SELECT sum(p.amount) AS total FROM billing_posting p
    WHERE p.account_id = a.id AND p.id > coalesce(last.posting_id, 0) AND p.id <= %(fence)s) fresh
WHERE a.owner_id IS NULL AND NOT a.live AND fresh.total IS NOT NULL
ON CONFLICT (account_id, posting_id) DO NOTHING
"""


def checkpoints_take(*, now: datetime) -> int:
    """Write checkpoints up to the last fence that was passed, and set a new fence for the next time; returns how many.

    Waits for nobody and holds nobody up. May run beside its twin: the same fence gives the same rows.
    """
    with connection.cursor() as cursor:
        cursor.execute(_FENCE_PASSED)
        fence = cursor.fetchone()[0]
        written = 0
        if fence is not None:
            cursor.execute(_CHECKPOINTS, {"fence": fence, "now": now})
            written = cursor.rowcount
    # On its own: the fence's transaction must get its number after the largest posting was seen.
    with transaction.atomic(durable=True):
        newest = Posting.objects.aggregate(newest=Max("id"))["newest"]
        if newest is not None and not PostingFence.objects.filter(posting_id__gte=newest).exists():
            PostingFence.objects.create(posting_id=newest, at=now)
    return written

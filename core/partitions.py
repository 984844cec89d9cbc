"""Daily RANGE partitions: made a week ahead and dropped after their time by a daily verb.

The app role owns nothing, so it may not create or drop tables itself. Two SECURITY DEFINER functions of the owner do it,
and only for tables registered in ``core_partitioned`` by a migration (see ``laws.partitioned``).
"""

from __future__ import annotations

from datetime import datetime, timedelta

import structlog
from django.db import connection, transaction

log = structlog.get_logger(__name__)

DAYS_AHEAD = 7
"""A job that fails for a week still loses nothing: rows then go to the default partition."""


def partitions_keep(*, now: datetime) -> dict[str, int]:
    """Make the coming week's partitions of every registered table and drop those past their keeping time.

    Returns {table: partitions dropped}. May run twice or beside its twin.
    """
    dropped: dict[str, int] = {}
    with connection.cursor() as cursor:
        cursor.execute("SELECT name, keep_days FROM core_partitioned ORDER BY name")
        tables = cursor.fetchall()
    for name, keep_days in tables:
        with transaction.atomic(), connection.cursor() as cursor:
            for ahead in range(DAYS_AHEAD + 1):
                cursor.execute("SELECT core_partition_make(%s, %s)", [name, (now + timedelta(days=ahead)).date()])
            cursor.execute("SELECT core_partition_drop(%s, %s)", [name, (now - timedelta(days=keep_days)).date()])
            dropped[name] = cursor.fetchone()[0]
    log.info("partitions_kept", dropped=dropped)
    return dropped

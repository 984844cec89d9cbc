from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import DatabaseError, connection, connections, transaction

from core import clock
from core.partitions import DAYS_AHEAD, partitions_keep


def children(table: str) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
            " WHERE i.inhparent = to_regclass(%s) ORDER BY 1",
            [table],
        )
        return [row[0] for row in cursor.fetchall()]


@pytest.fixture
def table(committed_db: str) -> str:
    with connections["owner"].cursor() as cursor:
        cursor.execute("CREATE TABLE readings (at timestamptz NOT NULL, value int) PARTITION BY RANGE (at)")
        cursor.execute("CREATE TABLE readings_default PARTITION OF readings DEFAULT")
        cursor.execute("INSERT INTO core_partitioned VALUES ('readings', 14)")
    return "readings"


def test_a_week_is_made_ahead_and_old_days_are_dropped(table: str) -> None:
    now = clock.now()
    for _ in range(2):
        partitions_keep(now=now)
        assert len(children(table)) == 1 + DAYS_AHEAD + 1
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO readings VALUES (%s, 1), (%s, 2)", [now, now + timedelta(days=400)])
    later = now + timedelta(days=16)
    assert partitions_keep(now=later)[table] == 2, "the days before the keeping time, and only they"
    with connection.cursor() as cursor:
        cursor.execute("SELECT value FROM readings")
        assert cursor.fetchall() == [(2,)], "the old day went with its partition"


def test_the_app_role_makes_and_drops_only_what_is_registered(table: str) -> None:
    for statement in (
        "SELECT core_partition_make('accounts_user', '2026-01-01')",
        "SELECT core_partition_drop('accounts_user', '2030-01-01')",
        "CREATE TABLE mine (id int)",
        "DROP TABLE readings",
        "INSERT INTO core_partitioned VALUES ('accounts_user', 1)",
        "ALTER TABLE core_statusevent DISABLE TRIGGER ALL",
    ):
        with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement)

"""What the autodetector cannot write: partitioned tables, append-only laws, storage. Used by 0001_initial."""

from __future__ import annotations

from django.db import migrations, models

from core import laws

_WINDOWS = """
CREATE TABLE marketplace_usagewindow (
    rental_id uuid NOT NULL,
    starts_at timestamptz NOT NULL,
    from_seconds bigint NOT NULL,
    to_seconds bigint NOT NULL,
    through_at timestamptz NOT NULL,
    CONSTRAINT marketplace_usagewindow_forward CHECK (to_seconds > from_seconds),
    PRIMARY KEY (rental_id, starts_at)
) PARTITION BY RANGE (starts_at)
"""
_CHUNKS = """
CREATE TABLE marketplace_logchunk (
    attempt_id uuid NOT NULL,
    "offset" bigint NOT NULL,
    received_at timestamptz NOT NULL,
    data bytea NOT NULL,
    PRIMARY KEY (attempt_id, "offset", received_at)
) PARTITION BY RANGE (received_at)
"""
WINDOWS_KEEP_DAYS = 396
"""Thirteen months: a yearly statement can still be explained."""
LOGS_KEEP_DAYS = 30


def usage_windows() -> migrations.SeparateDatabaseAndState:
    state = migrations.CreateModel(
        name="UsageWindow",
        fields=[
            (
                "pk",
                models.CompositePrimaryKey(
                    "rental_id", "starts_at", blank=True, editable=False, primary_key=True, serialize=False
                ),
            ),
            ("rental_id", models.UUIDField()),
            ("starts_at", models.DateTimeField()),
            ("from_seconds", models.BigIntegerField()),
            ("to_seconds", models.BigIntegerField()),
            ("through_at", models.DateTimeField()),
        ],
        options={
            "constraints": [
                models.CheckConstraint(
                    condition=models.Q(("to_seconds__gt", models.F("from_seconds"))),
                    name="marketplace_usagewindow_forward",
                )
            ]
        },
    )
    create = migrations.RunSQL(_WINDOWS, "DROP TABLE marketplace_usagewindow")
    return migrations.SeparateDatabaseAndState(database_operations=[create], state_operations=[state])


def log_chunks() -> migrations.SeparateDatabaseAndState:
    state = migrations.CreateModel(
        name="LogChunk",
        fields=[
            (
                "pk",
                models.CompositePrimaryKey(
                    "attempt_id", "offset", "received_at", blank=True, editable=False, primary_key=True, serialize=False
                ),
            ),
            ("attempt_id", models.UUIDField()),
            ("offset", models.BigIntegerField()),
            ("received_at", models.DateTimeField()),
            ("data", models.BinaryField()),
        ],
    )
    create = migrations.RunSQL(_CHUNKS, "DROP TABLE marketplace_logchunk")
    return migrations.SeparateDatabaseAndState(database_operations=[create], state_operations=[state])


TABLES = [
    usage_windows(),
    laws.partitioned("marketplace_usagewindow", keep_days=WINDOWS_KEEP_DAYS),
    log_chunks(),
    laws.partitioned("marketplace_logchunk", keep_days=LOGS_KEEP_DAYS),
    laws.append_only("marketplace_rate"),
    laws.append_only("marketplace_charge"),
    laws.append_only("marketplace_attemptevidence"),
    laws.frozen_columns(
        "marketplace_rental",
        ["attempt_id", "customer_id", "provider_id", "gpu_model_id", "gpus", "rate_micro", "fee_bps"],
    ),
    # Room on each page, so that taking a GPU rewrites a row where it lies and touches no index.
    migrations.RunSQL(
        "ALTER TABLE marketplace_listingindex SET (fillfactor = 85)",
        "ALTER TABLE marketplace_listingindex RESET (fillfactor)",
    ),
]

"""What the autodetector cannot write: the partitioned table of telemetry. Used by 0001_initial."""

from __future__ import annotations

from django.db import migrations, models

from core import laws

TABLE = "reliability_telemetryrollup"
KEEP_DAYS = 91
"""Ninety days are shown; the oldest one begins within its day."""
FIGURES = (
    "utilization_percent",
    "memory_used_bytes",
    "memory_used_bytes_peak",
    "temperature_c",
    "temperature_c_peak",
    "power_w",
    "power_w_peak",
    "sm_clock_mhz",
    "memory_clock_mhz",
)
# PARTITION BY cannot be said in Django.
CREATE = f"""
CREATE TABLE {TABLE} (
    gpu_id uuid NOT NULL,
    starts_at timestamptz NOT NULL,
    samples smallint NOT NULL CHECK (samples > 0),
    {", ".join(f"{name} double precision" for name in FIGURES)},
    PRIMARY KEY (gpu_id, starts_at)
) PARTITION BY RANGE (starts_at);
"""


def rollups() -> migrations.SeparateDatabaseAndState:
    state = migrations.CreateModel(
        name="TelemetryRollup",
        fields=[
            (
                "pk",
                models.CompositePrimaryKey(
                    "gpu_id", "starts_at", blank=True, editable=False, primary_key=True, serialize=False
                ),
            ),
            ("gpu_id", models.UUIDField()),
            ("starts_at", models.DateTimeField()),
            ("samples", models.PositiveSmallIntegerField()),
            *((name, models.FloatField(null=True)) for name in FIGURES),
        ],
    )
    create = migrations.RunSQL(CREATE, f"DROP TABLE {TABLE}")
    return migrations.SeparateDatabaseAndState(database_operations=[create], state_operations=[state])


TABLES = [rollups(), laws.partitioned(TABLE, keep_days=KEEP_DAYS)]

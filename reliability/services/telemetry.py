"""Raw readings become one row per GPU and five minutes, once, whoever asks how often."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import structlog
from django.db import connection, transaction

from core.models import Slot
from core.slots import slot_claim
from providers.models import Gpu
from reliability.models import TelemetryRollup
from reliability.selectors import live
from reliability.telemetry import BUCKET, METRICS, PEAKS, RAW, Rollup, bucket_number, bucket_start, roll_up

log = structlog.get_logger(__name__)

SLOT = "telemetry"
SETTLE = timedelta(minutes=1)
"""Web processes pass readings on once a second; a minute later nothing belonging to a piece is still on its way."""
MACHINES = 500
"""Machines read in one round trip."""
ROWS = 5_000

_FIGURES = [*METRICS, *(f"{name}_peak" for name in PEAKS)]
_INSERT = f"""
INSERT INTO {TelemetryRollup._meta.db_table} (gpu_id, starts_at, samples, {", ".join(_FIGURES)})
SELECT gpu_id, %s, samples, {", ".join(_FIGURES)}
FROM unnest(%s::uuid[], %s::smallint[], {", ".join("%s::double precision[]" for _name in _FIGURES)})
    AS rolled (gpu_id, samples, {", ".join(_FIGURES)})
ON CONFLICT (gpu_id, starts_at) DO NOTHING
"""

Row = tuple[Any, ...]


def telemetry_roll_up(*, now: datetime) -> int:
    """Roll up every piece that is complete and still in Valkey; returns how many rows were written.

    A piece is claimed in the transaction that writes its rows, so twins and repetitions write nothing, and what a crash
    or an absence of up to two hours left undone is made up for. Raises redis.RedisError; nothing is claimed then.
    """
    return sum(_piece(number, now) for number in _open_pieces(now))


def _open_pieces(now: datetime) -> list[int]:
    last = bucket_number(now - SETTLE) - 1
    wanted = range(last - int(RAW / BUCKET) + 2, last + 1)
    done = Slot.objects.filter(name=SLOT, slot__in=[str(number) for number in wanted]).values_list("slot", flat=True)
    return sorted(set(wanted) - {int(slot) for slot in done})


def _piece(number: int, now: datetime) -> int:
    rows = list(_rows(number))  # Valkey is asked before the transaction begins
    with transaction.atomic():
        if not slot_claim(SLOT, str(number), now=now):
            return 0
        for first in range(0, len(rows), ROWS):
            _write(rows[first : first + ROWS], bucket_start(number))
    log.info("telemetry_rolled_up", starts_at=bucket_start(number).isoformat(), rows=len(rows))
    return len(rows)


def _rows(number: int) -> Iterator[Row]:
    machines = live.machines_heard(number)
    for first in range(0, len(machines), MACHINES):
        chunk = machines[first : first + MACHINES]
        known = _gpu_ids(chunk)
        heard = live.readings_of((number, machine) for machine in chunk)
        for machine, readings in zip(chunk, heard, strict=True):
            for uuid, rolled in roll_up(readings).items():
                gpu_id = known.get((machine, uuid))
                if gpu_id is not None:  # a card we were never told of, or that left meanwhile
                    yield _row(gpu_id, rolled)


def _gpu_ids(machines: Sequence[str]) -> dict[tuple[str, str], UUID]:
    rows = Gpu.objects.filter(machine__in=[UUID(machine) for machine in machines]).exclude(status=Gpu.Status.RETIRED)
    return {(str(machine), uuid): pk for machine, uuid, pk in rows.values_list("machine_id", "uuid", "pk")}


def _row(gpu_id: UUID, rolled: Rollup) -> Row:
    means = (rolled.mean[name] for name in METRICS)
    return (str(gpu_id), rolled.samples, *means, *(rolled.peak[name] for name in PEAKS))


def _write(rows: Sequence[Row], starts_at: datetime) -> None:
    columns = [list(column) for column in zip(*rows, strict=True)]
    with connection.cursor() as cursor:
        cursor.execute(_INSERT, [starts_at, *columns])

"""Silence: after 45 s a machine gets no new jobs, after 90 s it is offline as of its last heartbeat."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import redis
import structlog
from django.db import connection, transaction
from django.db.models import QuerySet

from reliability.models import MachineHealth
from reliability.selectors import live
from reliability.services.heartbeats import beats_apply, flips_write
from reliability.services.platform import NO_VERDICT_SECONDS, pulse_take
from reliability.states import OFFLINE_SECONDS, SUSPECT_SECONDS

log = structlog.get_logger(__name__)

BATCH = 5000
SUSPECT_LEAD = timedelta(seconds=OFFLINE_SECONDS - SUSPECT_SECONDS)


@dataclass(frozen=True)
class Swept:
    """looked: False when no verdict could be given (a twin looks, Valkey is away, or we have only just begun)."""

    looked: bool
    suspect: int = 0
    offline: int = 0


def offline_sweep(*, now: datetime) -> Swept:
    """Give the verdicts that are due. Twins, repetitions and late runs are harmless: every UPDATE is conditional."""
    try:
        pulse = pulse_take(now=now)
        if pulse is None or now < pulse.epoch_started_at + timedelta(seconds=NO_VERDICT_SECONDS):
            return Swept(looked=False)
        due = list(_due(now).values_list("pk", flat=True)[:BATCH])
        # PostgreSQL may be a flush behind: whoever seems silent is looked up where heartbeats arrive.
        beats_apply(live.beats_of(due, live.firsts_seen() if due else {}), now=now)
    except redis.RedisError:
        log.warning("sweep_without_valkey", exc_info=True)
        return Swept(looked=False)
    if not due:
        return Swept(looked=True)
    with transaction.atomic():
        suspect = _suspect(due, now)
        offline = _offline(due, now)
        flips_write("suspect", suspect, now=now)
        flips_write("offline", offline, now=now)
    return Swept(looked=True, suspect=len(suspect), offline=len(offline))


def _due(now: datetime) -> QuerySet[MachineHealth]:
    silent = MachineHealth.objects.filter(state="online", offline_due_at__lte=now + SUSPECT_LEAD)
    return (silent | MachineHealth.objects.filter(state="suspect", offline_due_at__lte=now)).order_by("offline_due_at")


# Rows that a flush holds at this moment are alive: they are skipped, not waited for.
_MOVE = """
WITH due AS (
    SELECT machine_id FROM reliability_machinehealth
    WHERE machine_id = ANY (%(machines)s::uuid[]) AND state = ANY (%(states)s)
        AND offline_due_at <= %(latest)s AND offline_due_at > %(earliest)s
    ORDER BY machine_id FOR UPDATE SKIP LOCKED
)
UPDATE reliability_machinehealth AS health
SET state = %(to)s, state_since = health.offline_due_at - %(lead)s
FROM due WHERE health.machine_id = due.machine_id
RETURNING health.machine_id, health.state_since, health.last_seen_at
"""

_CLOSE = """
UPDATE reliability_onlineinterval AS interval SET ended_at = GREATEST(ended.at, interval.started_at)
FROM unnest(%(machines)s::uuid[], %(ends)s::timestamptz[]) AS ended (machine_id, at)
WHERE interval.machine_id = ended.machine_id AND interval.ended_at IS NULL
"""


def _move(due: list[UUID], **arguments: Any) -> list[tuple[UUID, datetime, datetime]]:
    with connection.cursor() as cursor:
        cursor.execute(_MOVE, {"machines": [str(machine_id) for machine_id in due], **arguments})
        return cursor.fetchall()


def _suspect(due: list[UUID], now: datetime) -> list[tuple[UUID, datetime]]:
    moved = _move(due, to="suspect", states=["online"], earliest=now, latest=now + SUSPECT_LEAD, lead=SUSPECT_LEAD)
    return [(machine_id, since) for machine_id, since, _last in moved]


def _offline(due: list[UUID], now: datetime) -> list[tuple[UUID, datetime]]:
    moved = _move(
        due,
        to="offline",
        states=["online", "suspect"],
        earliest=datetime.min.replace(tzinfo=now.tzinfo),
        latest=now,
        lead=timedelta(0),
    )
    if moved:
        with connection.cursor() as cursor:
            cursor.execute(_CLOSE, {"machines": [str(row[0]) for row in moved], "ends": [row[2] for row in moved]})
    return [(machine_id, since) for machine_id, since, _last in moved]

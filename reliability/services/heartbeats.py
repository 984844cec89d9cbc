"""Heartbeats: noted in Valkey as they come, flushed to PostgreSQL for the whole fleet at once."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import structlog
from django.db import connection, transaction

from core import news
from core.valkey import valkey
from reliability.models import Flip
from reliability.selectors import live
from reliability.states import OFFLINE_SECONDS
from reliability.telemetry import KEPT_SECONDS, bucket_number, reading_write

log = structlog.get_logger(__name__)

RAW_ENTRIES = 320
"""Of one machine in five minutes: syncs are limited to about one per second, so no reading of an honest agent is lost."""
CHUNK = 5000

Heartbeat = tuple[UUID, datetime, str, Sequence[Any]]
"""Machine, server time of its sync, boot id, telemetry (JSON values)."""


def heartbeats_note(beats: Sequence[Heartbeat]) -> None:
    """Keep heartbeats in Valkey, one round trip for a batch. Raises redis.RedisError; the next heartbeat makes up for it."""
    pipe = valkey().pipeline(transaction=False)
    heard: dict[int, list[str]] = defaultdict(list)
    for machine_id, at, boot_id, telemetry in beats:
        text = json.dumps({"at": at.isoformat(), "boot_id": boot_id, "telemetry": list(telemetry)})
        pipe.hset(live.SEEN_KEY, str(machine_id), text)
        pipe.hsetnx(live.FIRST_KEY, str(machine_id), at.isoformat())
        if telemetry:
            number = bucket_number(at)
            heard[number].append(str(machine_id))
            raw = live.raw_key(number, machine_id)
            pipe.rpush(raw, reading_write(at, telemetry))
            pipe.ltrim(raw, -RAW_ENTRIES, -1)
            pipe.expire(raw, KEPT_SECONDS)
    for number, names in heard.items():
        pipe.sadd(f"{live.RAW_KEY}{number}", *names)
        pipe.expire(f"{live.RAW_KEY}{number}", KEPT_SECONDS)
    pipe.execute()


def heartbeats_flush(*, now: datetime) -> int:
    """Bring every last-seen into MachineHealth; returns how many machines changed. Twins and repetitions change nothing.

    Raises redis.RedisError when Valkey is away: the sweep then gives no verdicts either.
    """
    firsts = live.firsts_seen()
    changed = sum(beats_apply(chunk, now=now) for chunk in live.beats_all(firsts, size=CHUNK))
    if firsts:
        valkey().hdel(live.FIRST_KEY, *firsts)
    return changed


# PostgreSQL 18 returns the row as it was before the UPSERT; a newcomer has no old row.
_APPLY = """
INSERT INTO reliability_machinehealth AS health
    (machine_id, state, state_since, last_seen_at, offline_due_at, boot_id, telemetry)
SELECT beat.machine_id, 'online', beat.first_at, beat.at, beat.at + %(offline_after)s, beat.boot_id, beat.telemetry::jsonb
FROM unnest(%(machines)s::uuid[], %(firsts)s::timestamptz[], %(ats)s::timestamptz[], %(boots)s::text[], %(telemetry)s::text[])
    AS beat (machine_id, first_at, at, boot_id, telemetry)
JOIN providers_machine machine ON machine.id = beat.machine_id
ORDER BY beat.machine_id
ON CONFLICT (machine_id) DO UPDATE SET
    state = 'online',
    state_since = CASE WHEN health.state = 'online' THEN health.state_since
                       ELSE GREATEST(EXCLUDED.state_since, health.last_seen_at) END,
    last_seen_at = EXCLUDED.last_seen_at,
    offline_due_at = EXCLUDED.offline_due_at,
    boot_id = EXCLUDED.boot_id,
    telemetry = EXCLUDED.telemetry
WHERE health.last_seen_at < EXCLUDED.last_seen_at
RETURNING new.machine_id, old.state, new.state_since, old.boot_id <> new.boot_id
"""

_OPEN = """
INSERT INTO reliability_onlineinterval (machine_id, started_at)
SELECT * FROM unnest(%(machines)s::uuid[], %(starts)s::timestamptz[])
ON CONFLICT (machine_id) WHERE ended_at IS NULL DO NOTHING
"""


def beats_apply(beats: Sequence[live.Beat], *, now: datetime) -> int:
    """Write heartbeats to MachineHealth; open an interval and flip those that were not online. Set-based: a fixed number of
    statements however many machines. An older heartbeat never overwrites a newer one; a machine we do not know is skipped."""
    if not beats:
        return 0
    with transaction.atomic(), connection.cursor() as cursor:
        arguments: dict[str, Any] = {
            "offline_after": timedelta(seconds=OFFLINE_SECONDS),
            "machines": [beat.machine_id for beat in beats],
            "firsts": [min(beat.first_at, now) for beat in beats],
            "ats": [min(beat.at, now) for beat in beats],
            "boots": [beat.boot_id for beat in beats],
            "telemetry": [beat.telemetry for beat in beats],
        }
        cursor.execute(_APPLY, arguments)
        rows = cursor.fetchall()
        back = [(machine_id, since) for machine_id, old, since, _other_boot in rows if old != "online"]
        begun = [(machine_id, since) for machine_id, old, since, _other_boot in rows if old in (None, "offline")]
        if begun:
            cursor.execute(_OPEN, {"machines": [str(row[0]) for row in begun], "starts": [row[1] for row in begun]})
        flips_write("online", back, now=now, rebooted={row[0]: row[3] for row in rows})
    return len(rows)


def flips_write(
    to: str,
    machines: Sequence[tuple[UUID, datetime]],
    *,
    now: datetime,
    rebooted: Mapping[UUID, bool | None] | None = None,
) -> None:
    """Record that machines changed state at their instants, and tell who listens. In the caller's transaction.

    ``rebooted``: for a return, whether each came back in another boot.
    """
    boots = rebooted or {}
    Flip.objects.bulk_create(
        Flip(machine_id=machine_id, to=to, at=at, noticed_at=now, rebooted=boots.get(machine_id))
        for machine_id, at in machines
    )
    news.publish_many("machine.flip", [machine_id for machine_id, _at in machines], now=now)
    if machines:
        log.info("machines_flipped", to=to, count=len(machines))

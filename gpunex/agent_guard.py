"""Two hosts with one identity: a sequence that goes back, or an earlier boot that speaks again, quarantines the machine.

Sequences rise within a boot, and a boot that ended never comes back. A late or repeated request can look the same once,
so a machine is quarantined at the third strike within ten minutes: a copy syncs four times a minute.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import redis
import structlog

from core import clock
from core.errors import MoveNotAllowed, StaleState
from core.valkey import valkey
from providers.models import Machine, MachineCredential
from providers.services import machine_quarantine

log = structlog.get_logger(__name__)

KEY = "agent:sequences"
KEY_SECONDS = 86_400
MARGIN_SECONDS = 1.0
"""Observations of several processes arrive out of order by up to a flush; closer ones than this accuse nobody."""
STRIKES = 3
STRIKE_SECONDS = 600.0
EARLIER_BOOTS = 4
CHANGE_OVER = timedelta(seconds=120)
"""Requests that were under way when the credential changed have long ended by then."""


class Seen(NamedTuple):
    machine_id: UUID
    boot_id: str
    sequence: int
    at: datetime
    credential: str = ""
    """Which one spoke: under a new one (enrolled anew) sequences begin anew."""


@dataclass(frozen=True)
class Track:
    """What is remembered of one machine; instants are Unix seconds."""

    boot_id: str
    sequence: int
    at: float
    credential: str = ""
    earlier_boots: list[str] = field(default_factory=list)
    strikes: list[float] = field(default_factory=list)


def judge(track: Track | None, seen: Seen) -> Track:
    """The track after one more observation; a strike is added when it contradicts what was seen before. Pure."""
    at = seen.at.timestamp()
    if track is None or seen.credential != track.credential:
        return Track(seen.boot_id, seen.sequence, at, seen.credential, strikes=[] if track is None else track.strikes)
    if seen.boot_id == track.boot_id and seen.sequence > track.sequence:
        return replace(track, sequence=seen.sequence, at=at)
    contradicts = seen.boot_id == track.boot_id or seen.boot_id in track.earlier_boots
    strikes = track.strikes
    if contradicts and at > track.at + MARGIN_SECONDS:
        strikes = [*(strike for strike in strikes if at - strike < STRIKE_SECONDS), at]
    if seen.boot_id == track.boot_id:
        return replace(track, strikes=strikes)
    earlier = [track.boot_id, *(boot for boot in track.earlier_boots if boot != seen.boot_id)][:EARLIER_BOOTS]
    return Track(seen.boot_id, seen.sequence, at, seen.credential, earlier, strikes)


def guard_note(observations: Sequence[Seen]) -> None:
    """Judge a batch against what all processes saw, and quarantine whoever struck out. Raises redis.RedisError."""
    ids = sorted({str(seen.machine_id) for seen in observations})
    if not ids:
        return
    stored = valkey().hmget(KEY, ids)
    tracks = {name: Track(**json.loads(text)) if text else None for name, text in zip(ids, stored, strict=True)}
    struck_out = set()
    for seen in sorted(observations, key=lambda each: each.at):
        name = str(seen.machine_id)
        track = judge(tracks[name], seen)
        if len(track.strikes) >= STRIKES:
            struck_out.add(seen.machine_id)
            track = replace(track, strikes=[])
        tracks[name] = track
    pipeline = valkey().pipeline(transaction=False)
    pipeline.hset(KEY, mapping={name: json.dumps(asdict(track)) for name, track in tracks.items() if track})
    pipeline.expire(KEY, KEY_SECONDS)
    pipeline.execute()
    for machine in Machine.objects.filter(pk__in=struck_out).order_by("pk") if struck_out else ():
        _quarantine(machine)


def replaced_note(credential_hash: bytes) -> None:
    """Somebody speaks with a credential whose successor is in use, and not just under way: there are two hosts."""
    found = MachineCredential.objects.select_related("machine").filter(secret_hash=credential_hash).first()
    if found is None or found.revoked_at is None or clock.now() - found.revoked_at < CHANGE_OVER:
        return
    key = f"agent:replaced:{found.machine_id}"
    with suppress(redis.RedisError):
        strikes = valkey().incr(key)
        if strikes == 1:
            valkey().expire(key, int(STRIKE_SECONDS))
        if strikes >= STRIKES:
            valkey().delete(key)
            _quarantine(found.machine)


def _quarantine(machine: Machine) -> None:
    log.warning("machine_has_two_sessions", machine=str(machine.pk))
    with suppress(MoveNotAllowed, StaleState):  # it is there already, or gone
        machine_quarantine(machine=machine, actor="guard", now=clock.now(), reason="two_sessions")

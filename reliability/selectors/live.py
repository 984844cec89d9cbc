"""Last-seen data as Valkey holds it. All of it can be lost: what matters is flushed to PostgreSQL.

fleet:epoch          the epoch (UUID) this data belongs to; absent after Valkey was emptied
fleet:seen           hash: machine → JSON {at, boot_id, telemetry} of its last heartbeat
fleet:first          hash: machine → instant of its first heartbeat since the last flush, so that a return counts from there
fleet:raw:<n>        set: the machines heard in the n-th five minutes since 1970 (kept for two hours and a little)
fleet:raw:<n>:<id>   list: what such a machine said of its GPUs then, oldest first (reliability.telemetry)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, cast
from uuid import UUID

from core.valkey import valkey
from reliability.telemetry import Reading, reading_read

EPOCH_KEY = "fleet:epoch"
SEEN_KEY = "fleet:seen"
FIRST_KEY = "fleet:first"
RAW_KEY = "fleet:raw:"
SCAN_COUNT = 1000


@dataclass(frozen=True)
class Beat:
    """A machine's last heartbeat; ``first_at`` is the first one since the last flush."""

    machine_id: str
    at: datetime
    first_at: datetime
    boot_id: str
    telemetry: str  # JSON, as it goes into the column


def epoch_seen() -> str | None:
    """The epoch Valkey carries. Raises redis.RedisError."""
    return cast("str | None", valkey().get(EPOCH_KEY))


def firsts_seen() -> dict[str, str]:
    return cast("dict[str, str]", valkey().hgetall(FIRST_KEY))


def _beat(machine_id: str, text: str, first: str | None) -> Beat:
    entry = json.loads(text)
    at = datetime.fromisoformat(entry["at"])
    first_at = at if first is None else min(at, datetime.fromisoformat(first))
    return Beat(machine_id, at, first_at, entry["boot_id"], json.dumps(entry["telemetry"]))


def beats_all(firsts: dict[str, str], *, size: int) -> Iterator[list[Beat]]:
    """Every machine's last heartbeat, in chunks. Raises redis.RedisError."""
    entries = valkey().hscan_iter(SEEN_KEY, count=SCAN_COUNT)
    beats = (_beat(machine_id, text, firsts.get(machine_id)) for machine_id, text in entries)
    while chunk := list(islice(beats, size)):
        yield chunk


def beats_of(machine_ids: Iterable[UUID], firsts: dict[str, str]) -> list[Beat]:
    """The last heartbeats of some machines; unknown ones are absent. Raises redis.RedisError."""
    names = [str(machine_id) for machine_id in machine_ids]
    if not names:
        return []
    texts = cast("list[str | None]", valkey().hmget(SEEN_KEY, names))
    return [_beat(name, text, firsts.get(name)) for name, text in zip(names, texts, strict=True) if text is not None]


def raw_key(number: int, machine_id: object) -> str:
    return f"{RAW_KEY}{number}:{machine_id}"


def machines_heard(number: int) -> list[str]:
    """The ids of the machines heard in the ``number``-th five minutes, in order. Raises redis.RedisError."""
    return sorted(cast("set[str]", valkey().smembers(f"{RAW_KEY}{number}")))


def readings_of(keys: Iterable[tuple[int, object]]) -> list[list[Reading]]:
    """What was said under each (five minutes, machine), in one round trip, oldest first. Raises redis.RedisError."""
    pipe = valkey().pipeline(transaction=False)
    for number, machine_id in keys:
        pipe.lrange(raw_key(number, machine_id), 0, -1)
    return [sorted(reading_read(text) for text in texts) for texts in pipe.execute()]


def seen_last(machine_ids: Iterable[UUID]) -> dict[UUID, list[dict[str, Any]]]:
    """The newest telemetry of some machines as it came over the wire; unheard ones are absent. Raises redis.RedisError."""
    return {UUID(beat.machine_id): json.loads(beat.telemetry) for beat in beats_of(machine_ids, {})}

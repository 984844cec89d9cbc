"""Heartbeats, gathered per process and passed on once a second: last-seen to reliability, sequences to the guard.

One Valkey call per sync would cost as much as the rest of the request; one per second costs nothing.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import redis
import structlog
from django.db import close_old_connections

from gpunex.agent_guard import Seen, guard_note
from reliability.services import heartbeats_note

log = structlog.get_logger(__name__)

FLUSH_SECONDS = 1.0
MAX_WAITING = 100_000
"""Heartbeats kept while Valkey is away: one per machine, so this many machines per process."""


class Heartbeat(NamedTuple):
    """What reliability hears of one sync. ``telemetry``: readings as on the wire, one dictionary per GPU."""

    machine_id: UUID
    at: datetime
    boot_id: str
    telemetry: list[dict[str, Any]]


class Batch:
    """Thread-safe. ``deliver`` gets everything since the last flush; what it cannot deliver waits for the next one."""

    def __init__(self, deliver: Callable[[Sequence[Heartbeat]], None], guard: Callable[[Sequence[Seen]], None]) -> None:
        self._deliver, self._guard = deliver, guard
        self._lock = threading.Lock()
        self._beats: dict[UUID, Heartbeat] = {}
        self._seen: list[Seen] = []
        self._started = False
        self._stopping = threading.Event()

    def note(self, beat: Heartbeat, *, sequence: int, credential: str = "") -> None:
        """Take a sync's heartbeat; the newest per machine counts."""
        with self._lock:
            if len(self._beats) < MAX_WAITING or beat.machine_id in self._beats:
                self._beats[beat.machine_id] = beat
            if len(self._seen) < MAX_WAITING:
                self._seen.append(Seen(beat.machine_id, beat.boot_id, sequence, beat.at, credential))
        if not self._started:
            self._start()

    def flush(self) -> int:
        """Pass on what has gathered; returns how many machines. Raises redis.RedisError, and keeps the beats then."""
        with self._lock:
            beats, self._beats = self._beats, {}
            seen, self._seen = self._seen, []
        if not beats:
            return 0
        try:
            self._deliver(list(beats.values()))
        except redis.RedisError:
            with self._lock:
                self._beats = beats | self._beats
            raise
        self._guard(seen)
        return len(beats)

    def _start(self) -> None:
        with self._lock:
            if self._started:
                return
            self._started = True
        threading.Thread(target=self._run, name="agent-heartbeats", daemon=True).start()
        atexit.register(self._stopping.set)

    def _run(self) -> None:
        while not self._stopping.wait(FLUSH_SECONDS):
            try:
                self.flush()
                close_old_connections()
            except redis.RedisError as error:
                log.warning("heartbeats_wait_for_valkey", error=repr(error))
            except Exception:  # the thread must live as long as the process
                log.warning("heartbeats_not_flushed", exc_info=True)


BATCH = Batch(heartbeats_note, guard_note)

"""Which machine a credential belongs to and where its plan stands, remembered per process, so that a sync costs no SQL.

Every change of a plan and every revocation rings the machine's bell; each web process listens and forgets what it knew.
What it still remembers is compared with the database for all machines at once, so that a lost ring costs seconds. While it
cannot listen it trusts its memory for two seconds only.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import redis
import structlog
from django.conf import settings
from django.db import close_old_connections

from core.bell import CHANNEL_PREFIX
from core.ids import secret_hash
from providers.models import Machine, MachineCredential
from providers.selectors import Known, credential_find

log = structlog.get_logger(__name__)

REFRESH_SECONDS = 10.0
"""The pace of the comparison with the database: one statement per process, and the longest a lost ring is felt."""
TRUSTED_SECONDS = 30.0
"""How long a session is believed without a comparison, should that fail."""
DEAF_SECONDS = 2.0
IDLE_SECONDS = 120.0
"""A machine that has not spoken here for so long is offline or talks to another process: it is forgotten."""
MAX_SESSIONS = 50_000
PATTERN = CHANNEL_PREFIX + "machine-*"
SILENCE_SECONDS = 5.0
RINGS_KEPT = 1024
"""After a restart of the platform every machine's bell rings within seconds: a ring about one must not cost the others
their sessions. More rings than this while one is being read, and it is read again."""
FORGOTTEN = float("-inf")

Told = tuple[str, str, tuple[str, ...], bool]


@dataclass
class Session:
    """What one process knows of one machine, under one credential. ``plan_version`` null: ask the database."""

    machine: Machine
    loaded_at: float  # monotonic seconds
    inventory_digest: str
    told: Told
    """Boot id, agent version, degradations, and whether the host's clock is wrong, as recorded."""
    credential: Known | None = None
    plan_version: int | None = None
    used_at: float = 0.0
    allowance: tuple[float, float] = (0.0, FORGOTTEN)
    """Tokens left of the machine's rate, and when they were counted (monotonic)."""
    observed: dict[str, tuple[tuple[Any, ...], float]] = field(default_factory=dict)
    """Attempt or run id → what was last passed on about it, and when (monotonic)."""

    def news(self, key: str, told: tuple[Any, ...], *, at: float, stale_after: float) -> bool:
        """Whether this is to be passed on: something else than last time, or last time is long ago."""
        before = self.observed.get(key)
        return before is None or before[0] != told or at - before[1] >= stale_after

    def passed_on(self, key: str, told: tuple[Any, ...], *, at: float) -> None:
        """Remember what was recorded; called afterwards, so that a report whose recording failed is passed on again."""
        self.observed[key] = (told, at)

    def keep_only(self, keys: set[str]) -> None:
        """Forget what is no longer reported."""
        if self.observed.keys() - keys:
            self.observed = {key: value for key, value in self.observed.items() if key in keys}


class Memory:
    """Sessions by hashed credential. Thread-safe; one per process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: dict[bytes, Session] = {}
        self._by_machine: dict[UUID, set[bytes]] = {}
        self.rings = 0
        self._rung: deque[UUID | None] = deque(maxlen=RINGS_KEPT)
        """Whom the latest rings were about; null: everybody."""
        self.listening = False

    def get(self, key: bytes, *, at: float) -> Session | None:
        session = self._sessions.get(key)
        limit = TRUSTED_SECONDS if self.listening else DEAF_SECONDS
        if session is None or at - session.loaded_at >= limit:
            return None
        session.used_at = at
        return session

    def put(self, key: bytes, session: Session, *, rings_before: int) -> None:
        """Remember what was read after ``rings_before`` rings, unless this machine's bell has rung since."""
        with self._lock:
            if self._rang(session.machine.id, since=rings_before):
                return
            if len(self._sessions) >= MAX_SESSIONS:
                self._sessions.clear()
                self._by_machine.clear()
            before = self._sessions.get(key)
            if before is not None:
                session.observed, session.allowance = before.observed, before.allowance
            self._sessions[key] = session
            self._by_machine.setdefault(session.machine.id, set()).add(key)

    def forget(self, machine_id: UUID | None) -> None:
        """Believe nothing about this machine any more; None: about any machine."""
        with self._lock:
            self.rings += 1
            self._rung.append(machine_id)
            keys = list(self._sessions) if machine_id is None else list(self._by_machine.get(machine_id, ()))
            for key in keys:
                self._sessions[key].loaded_at = FORGOTTEN

    def _rang(self, machine_id: UUID, *, since: int) -> bool:
        """Whether a ring after the first ``since`` was, or may have been, about this machine."""
        rings = self.rings - since
        if rings > len(self._rung):
            return True
        return any(self._rung[-number] in (None, machine_id) for number in range(1, rings + 1))

    def remembered(self, *, at: float) -> list[bytes]:
        """The credentials worth comparing: believed, and used lately. The others are dropped."""
        with self._lock:
            idle = [key for key, session in self._sessions.items() if at - session.used_at > IDLE_SECONDS]
            for key in idle:
                self._drop(key)
            return [key for key, session in self._sessions.items() if session.loaded_at != FORGOTTEN]

    def _drop(self, key: bytes) -> None:
        machine_id = self._sessions.pop(key).machine.id
        keys = self._by_machine[machine_id]
        keys.discard(key)
        if not keys:
            del self._by_machine[machine_id]

    def compare(self, key: bytes, found: Compared | None, *, at: float) -> None:
        """Take what the database said at ``at``: believe on, or ask anew. What a ring overtook meanwhile stays forgotten."""
        with self._lock:
            session = self._sessions.get(key)
            if session is None or session.loaded_at == FORGOTTEN or session.loaded_at > at:
                return
            same = found is not None and (found.inventory_digest, found.told) == (
                session.inventory_digest,
                session.told,
            )
            if same and found is not None and session.plan_version in (None, found.plan_version):
                session.loaded_at = at
            else:
                session.loaded_at = FORGOTTEN


@dataclass(frozen=True)
class Compared:
    """The database's view of a session whose credential opens something."""

    plan_version: int
    inventory_digest: str
    told: Told


MEMORY = Memory()
_threads_started = threading.Lock()
COMPARING = threading.Lock()
"""Held while the background comparison runs; tests hold it to keep it out."""


def find(secret: str) -> Session:
    """The session of a credential, from memory or from the database. Raises Unauthorized.

    The machine may come from the two-second cache of credentials, so its plan's version is not taken over.
    """
    threads_start_once()
    key, at = secret_hash(secret), time.monotonic()
    known = MEMORY.get(key, at=at)
    if known is not None:
        return known
    rings = MEMORY.rings
    known_credential = credential_find(secret)
    machine = known_credential.machine
    session = Session(
        machine=machine,
        credential=known_credential,
        loaded_at=at,
        used_at=at,
        inventory_digest=machine.inventory_digest,
        told=(machine.boot_id, machine.agent_version, tuple(machine.degraded), machine.clock_skew_s is not None),
    )
    MEMORY.put(key, session, rings_before=rings)
    return session


def threads_start_once() -> None:
    """Start this process's threads at its first request (never at import: servers fork)."""
    if _threads_started.acquire(blocking=False):
        threading.Thread(target=_listen_for_ever, name="agent-sessions", daemon=True).start()
        threading.Thread(target=_compare_for_ever, name="agent-sessions-compare", daemon=True).start()


def sessions_compare(memory: Memory) -> int:
    """Compare everything remembered with the database, in one statement; returns how many sessions that were."""
    at = time.monotonic()
    keys = memory.remembered(at=at)
    if not keys:
        return 0
    rows = MachineCredential.objects.filter(secret_hash__in=keys, revoked_at__isnull=True).values_list(
        "secret_hash",
        "machine__plan_version",
        "machine__inventory_digest",
        "machine__boot_id",
        "machine__agent_version",
        "machine__degraded",
        "machine__clock_skew_s",
    )
    found = {
        bytes(key): Compared(version, digest, (boot, agent_version, tuple(degraded), skew is not None))
        for key, version, digest, boot, agent_version, degraded, skew in rows
    }
    for key in keys:
        memory.compare(key, found.get(key), at=at)
    return len(keys)


def _compare_for_ever() -> None:
    while True:
        time.sleep(REFRESH_SECONDS)
        try:
            with COMPARING:
                sessions_compare(MEMORY)
            close_old_connections()
        except Exception as error:  # the thread must live as long as the process
            log.warning("agent_sessions_not_compared", error=repr(error))


def _listen_for_ever() -> None:
    while True:
        try:
            _listen()
        except (redis.RedisError, OSError) as error:
            log.warning("agent_sessions_deaf", error=repr(error))
        MEMORY.listening = False
        time.sleep(1.0)


def _listen() -> None:
    client = redis.Redis.from_url(
        settings.REDIS_URL, decode_responses=True, socket_connect_timeout=1, socket_timeout=SILENCE_SECONDS
    )
    with client, client.pubsub() as subscription:
        subscription.psubscribe(PATTERN)
        unanswered = False
        while True:
            message = subscription.get_message(timeout=SILENCE_SECONDS)
            if message is None:
                if unanswered:
                    raise redis.TimeoutError("Valkey does not answer")
                unanswered = True
                subscription.ping()
            elif message["type"] == "psubscribe":
                MEMORY.forget(None)  # rings may have been missed
                MEMORY.listening = True
            elif message["type"] == "pmessage":
                MEMORY.forget(_machine_of(message["channel"]))
            else:
                unanswered = False


def _machine_of(channel: str) -> UUID | None:
    try:
        return UUID(hex=channel.removeprefix(CHANNEL_PREFIX + "machine-"))
    except ValueError:
        return None

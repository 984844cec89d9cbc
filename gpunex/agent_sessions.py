"""Which machine a credential belongs to and where its plan stands, remembered per process, so that a sync costs no SQL.

Every change of a plan and every revocation rings the machine's bell; each web process listens and forgets what it knew.
While it cannot listen it trusts its memory for two seconds only.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import redis
import structlog
from django.conf import settings

from core.bell import CHANNEL_PREFIX
from core.ids import secret_hash
from providers.models import Machine
from providers.selectors import machine_by_credential

log = structlog.get_logger(__name__)

TRUSTED_SECONDS = 30.0
"""How long a remembered session is believed while the subscription stands: a lost ring costs at most this."""
DEAF_SECONDS = 2.0
MAX_SESSIONS = 50_000
PATTERN = CHANNEL_PREFIX + "machine-*"
SILENCE_SECONDS = 5.0


@dataclass
class Session:
    """What one process knows of one machine, under one credential. ``plan_version`` null: ask the database."""

    machine: Machine
    loaded_at: float  # monotonic seconds
    inventory_digest: str
    told: tuple[str, str, tuple[str, ...]]
    """Boot id, agent version and degradations as recorded."""
    plan_version: int | None = None
    allowance: tuple[float, float] = (0.0, float("-inf"))
    """Tokens left of the machine's rate, and when they were counted (monotonic)."""
    observed: dict[str, tuple[tuple[Any, ...], float]] = field(default_factory=dict)
    """Attempt or run id → what was last passed on about it, and when (monotonic)."""

    def news(self, key: str, told: tuple[Any, ...], *, at: float, stale_after: float) -> bool:
        """Whether this is to be passed on: something else than last time, or last time is long ago. Then remember it."""
        before = self.observed.get(key)
        if before is not None and before[0] == told and at - before[1] < stale_after:
            return False
        self.observed[key] = (told, at)
        return True

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
        self.listening = False

    def get(self, key: bytes, *, at: float) -> Session | None:
        session = self._sessions.get(key)
        limit = TRUSTED_SECONDS if self.listening else DEAF_SECONDS
        return session if session is not None and at - session.loaded_at < limit else None

    def put(self, key: bytes, session: Session, *, rings_before: int) -> None:
        """Remember what was read after ``rings_before`` rings; a ring since then may be about it, so it is not kept."""
        with self._lock:
            if rings_before != self.rings:
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
            if machine_id is None:
                keys = list(self._sessions)
            else:
                keys = list(self._by_machine.get(machine_id, ()))
            for key in keys:
                self._sessions[key].loaded_at = float("-inf")


MEMORY = Memory()
_listener_started = threading.Lock()


def find(secret: str) -> Session:
    """The session of a credential, from memory or from the database. Raises Unauthorized.

    The machine may come from the two-second cache of credentials, so its plan's version is not taken over.
    """
    listen_once()
    key, at = secret_hash(secret), time.monotonic()
    known = MEMORY.get(key, at=at)
    if known is not None:
        return known
    rings = MEMORY.rings
    machine = machine_by_credential(secret)
    session = Session(
        machine=machine,
        loaded_at=at,
        inventory_digest=machine.inventory_digest,
        told=(machine.boot_id, machine.agent_version, tuple(machine.degraded)),
    )
    MEMORY.put(key, session, rings_before=rings)
    return session


def listen_once() -> None:
    """Start this process's listener at its first request (never at import: servers fork)."""
    if _listener_started.acquire(blocking=False):
        threading.Thread(target=_listen_for_ever, name="agent-sessions", daemon=True).start()


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

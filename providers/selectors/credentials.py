"""Which machine a credential belongs to: asked at every agent call, so it is remembered for two seconds per process.

A revocation or any other change of a machine's status is told to every process over Valkey's pub/sub and takes effect
at once; should that message be lost, the two seconds bound how long an old answer lives.
"""

from __future__ import annotations

import os
import threading
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import redis
import structlog
from django.db import transaction
from django.utils.translation import gettext as _

from core import clock
from core.errors import Unauthorized
from core.ids import secret_hash
from core.valkey import valkey
from providers.models import Machine, MachineCredential
from providers.states import MACHINE_LIVE

log = structlog.get_logger(__name__)

CACHE_SECONDS = 2
CACHE_SIZE = 50_000
"""Machines that one process may remember; beyond it the cache starts over."""
CHANNEL = "providers:credentials"
RECONNECT_SECONDS = 1.0
LISTEN_SECONDS = 30.0


class Known(NamedTuple):
    """A credential that opens something, and whose it is. ``used``: it has opened a sync before."""

    machine: Machine
    credential_id: UUID
    made_at: datetime
    used: bool


_cache: dict[bytes, tuple[datetime, Known]] = {}
_keys: dict[str, set[bytes]] = {}
"""Which entries of the cache are a machine's: when a platform restarts, every machine's are dropped within seconds."""
_listener: tuple[int, threading.Thread] | None = None
_lock = threading.Lock()


def machine_by_credential(secret: str) -> Machine:
    """The machine (with its provider) that a bearer credential speaks for. See credential_find."""
    return credential_find(secret).machine


def credential_find(secret: str) -> Known:
    """What a bearer credential opens. Its machine is shared between threads: only read it.

    Raises Unauthorized: ``unauthorized`` for a credential nobody has, ``revoked`` for one that was taken back,
    ``credential_replaced`` for one whose successor has been used.
    """
    now, key = clock.now(), secret_hash(secret)
    held = _cache.get(key)
    if held is not None and held[0] > now:
        return held[1]
    _listen()
    found = MachineCredential.objects.select_related("machine__provider__party").filter(secret_hash=key).first()
    if found is None:
        raise Unauthorized(_("This credential is unknown."))
    if found.revoked_at is not None and found.replaced and found.machine.status in MACHINE_LIVE:
        raise Unauthorized(_("This credential was replaced by another."), code="credential_replaced")
    if found.revoked_at is not None:
        raise Unauthorized(_("This credential was revoked."), code="revoked")
    known = Known(found.machine, found.pk, found.created_at, found.used_at is not None)
    _remember(key, known, until=now + timedelta(seconds=CACHE_SECONDS))
    return known


def _remember(key: bytes, known: Known, *, until: datetime) -> None:
    if len(_cache) >= CACHE_SIZE:
        _forget_all()
    with _lock:
        _keys.setdefault(known.machine.pk.hex, set()).add(key)
        _cache[key] = (until, known)


def credentials_forget(machine_id: UUID) -> None:
    """After commit: every process forgets what it remembers of this machine."""
    transaction.on_commit(lambda: _tell(machine_id), robust=True)


def _tell(machine_id: UUID) -> None:
    _drop(machine_id.hex)
    try:
        valkey().publish(CHANNEL, machine_id.hex)
    except redis.RedisError:
        log.warning("revocation_not_told", machine=str(machine_id))


def _drop(machine_hex: str) -> None:
    with _lock:
        for key in _keys.pop(machine_hex, ()):
            _cache.pop(key, None)


def _forget_all() -> None:
    with _lock:
        _cache.clear()
        _keys.clear()


def _listen() -> None:
    """Start this process's listener once (a fork starts its own)."""
    global _listener
    with _lock:
        if _listener is None or _listener[0] != os.getpid():
            thread = threading.Thread(target=_hear, name="credentials", daemon=True)
            _listener = (os.getpid(), thread)
            thread.start()


def _hear() -> None:
    pause = threading.Event()
    while True:
        try:
            with valkey().pubsub(ignore_subscribe_messages=True) as channel:
                channel.subscribe(CHANNEL)
                _forget_all()  # whatever was said while we were not listening
                while True:
                    message = channel.get_message(timeout=LISTEN_SECONDS)
                    if message is not None:
                        _drop(str(message["data"]))
        except redis.RedisError:
            pause.wait(RECONNECT_SECONDS)

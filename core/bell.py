"""The doorbell's rings and tickets. A ring carries no data, only "there is something to fetch".

A ticket is an HMAC over one channel and an expiry; the doorbell process verifies it without a database.
"""

from __future__ import annotations

import hmac
import time
from hashlib import sha256

import redis
import structlog
from django.conf import settings
from django.db import transaction

from core.valkey import valkey

log = structlog.get_logger(__name__)

TICKET_SECONDS = 600
CHANNEL_PREFIX = "bell:"


def _signature(channel: str, expires: int, key: str) -> str:
    return hmac.new(key.encode(), f"bell|{channel}|{expires}".encode(), sha256).hexdigest()


def ticket_issue(channel: str) -> str:
    """A ticket for one channel, good for ten minutes: ``channel.expires.signature``. Channels hold no dots."""
    expires = int(time.time()) + TICKET_SECONDS
    return f"{channel}.{expires}.{_signature(channel, expires, settings.BELL_SECRET)}"


def ticket_channel(ticket: str, *, key: str, unix_now: float) -> str | None:
    """The channel a ticket opens, or None when it is malformed, forged or expired."""
    channel, _, rest = ticket.partition(".")
    expires, _, signature = rest.partition(".")
    if not channel or not expires.isdecimal() or len(expires) > 12 or int(expires) < unix_now:
        return None
    return channel if hmac.compare_digest(signature, _signature(channel, int(expires), key)) else None


def ring(channel: str, *, event: str = "ring") -> None:
    """Ring a channel after commit. A bell that cannot ring costs a heartbeat's delay, never a request."""
    transaction.on_commit(lambda: _publish(channel, event), robust=True)


def _publish(channel: str, event: str) -> None:
    try:
        valkey().publish(CHANNEL_PREFIX + channel, event)
    except redis.RedisError:
        log.warning("bell_not_rung", channel=channel)

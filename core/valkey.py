"""Valkey: broker, cache, last-seen, doorbell. Losing it loses nothing that cannot be rebuilt."""

from __future__ import annotations

from functools import lru_cache

import redis
from django.conf import settings

TIMEOUT_SECONDS = 1.0


@lru_cache(maxsize=1)
def valkey() -> redis.Redis:
    """The process's connection pool. Callers say what they do without it: ``redis.RedisError`` is theirs to catch."""
    return redis.Redis.from_url(
        settings.REDIS_URL,
        socket_timeout=TIMEOUT_SECONDS,
        socket_connect_timeout=TIMEOUT_SECONDS,
        decode_responses=True,
    )

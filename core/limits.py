"""Rate limits in Valkey: at most so many takes per name and period. Without Valkey nobody is refused."""

from __future__ import annotations

import redis
import structlog
from django.utils.translation import gettext as _

from core.errors import SlowDown
from core.valkey import valkey

log = structlog.get_logger(__name__)


def limit_take(name: str, *, limit: int, seconds: int) -> None:
    """Count one take of ``name``; the period starts with its first take. Raises SlowDown beyond ``limit``.

    ``name`` says what is limited and whose it is, e.g. ``enrol:203.0.113.7``.
    """
    key = f"limit:{name}"
    try:
        with valkey().pipeline(transaction=True) as pipe:
            pipe.incr(key)
            pipe.expire(key, seconds, nx=True)
            pipe.ttl(key)
            taken, _set, left = pipe.execute()
    except redis.RedisError:
        log.warning("limit_not_counted", limit=name.partition(":")[0])
        return
    if taken > limit:
        raise SlowDown(_("Too many requests; try again later."), retry_after_s=max(int(left), 1))

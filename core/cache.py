"""The cache, which may be away: what it would have held is computed or read anew, and nothing answers 500 for want of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import redis
import structlog
from django.core.cache.backends.redis import RedisCache

log = structlog.get_logger(__name__)


def _or(fallback: Callable[..., Any], method: Callable[..., Any]) -> Callable[..., Any]:
    """``method``, or what ``fallback`` says where Valkey does not answer; it gets the same arguments."""

    @wraps(method)
    def asked(self: Any, *args: Any, **options: Any) -> Any:
        try:
            return method(self, *args, **options)
        except redis.RedisError:
            log.warning("cache_away", what=method.__name__)
            return fallback(*args, **options)

    return asked


def _default(_key: Any, default: Any = None, *_args: Any, **_options: Any) -> Any:
    return default


class OptionalCache(RedisCache):
    """Django's cache in Valkey, empty while Valkey is down. Nothing that has to be true later may live here alone."""

    get = _or(_default, RedisCache.get)
    get_many = _or(lambda *_a, **_o: {}, RedisCache.get_many)
    set = _or(lambda *_a, **_o: None, RedisCache.set)
    set_many = _or(lambda data, *_a, **_o: list(data), RedisCache.set_many)
    add = _or(lambda *_a, **_o: False, RedisCache.add)
    touch = _or(lambda *_a, **_o: False, RedisCache.touch)
    delete = _or(lambda *_a, **_o: False, RedisCache.delete)
    delete_many = _or(lambda *_a, **_o: None, RedisCache.delete_many)
    has_key = _or(lambda *_a, **_o: False, RedisCache.has_key)

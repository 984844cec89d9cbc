from __future__ import annotations

import redis
import structlog
from celery import shared_task

from core import clock
from reliability import services

log = structlog.get_logger(__name__)


@shared_task(name="reliability.heartbeats_flush")
def heartbeats_flush() -> int:
    try:
        changed = services.heartbeats_flush(now=clock.now())
    except redis.RedisError:
        log.warning("flush_without_valkey", exc_info=True)
        return 0
    services.occupancies_judge(now=clock.now())
    return changed


@shared_task(name="reliability.offline_sweep")
def offline_sweep() -> int:
    return services.offline_sweep(now=clock.now()).offline


@shared_task(name="reliability.scores_recompute")
def scores_recompute() -> int:
    return services.scores_recompute(now=clock.now())


@shared_task(name="reliability.telemetry_roll_up")
def telemetry_roll_up() -> int:
    try:
        return services.telemetry_roll_up(now=clock.now())
    except redis.RedisError:
        log.warning("roll_up_without_valkey", exc_info=True)
        return 0


@shared_task(name="reliability.offline_notices_send")
def offline_notices_send() -> int:
    return services.offline_notices_send(now=clock.now())

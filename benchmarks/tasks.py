from __future__ import annotations

from celery import shared_task

from benchmarks import services
from core import clock


@shared_task(name="benchmarks.runs_dispatch", queue="bench")
def runs_dispatch() -> int:
    return services.runs_dispatch(now=clock.now())


@shared_task(name="benchmarks.runs_expire", queue="bench")
def runs_expire() -> int:
    return services.runs_expire(now=clock.now())


@shared_task(name="benchmarks.runs_request_weekly", queue="bench")
def runs_request_weekly() -> int:
    return services.runs_request_weekly(now=clock.now())

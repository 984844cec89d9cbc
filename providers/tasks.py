from __future__ import annotations

from celery import shared_task

from core import clock
from providers import services


@shared_task(name="providers.schedules_sweep")
def schedules_sweep() -> int:
    return services.schedules_sweep(now=clock.now())

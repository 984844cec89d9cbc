from __future__ import annotations

from celery import shared_task

from billing import services
from core import clock


@shared_task(name="billing.earnings_mature", queue="default")
def earnings_mature() -> int:
    return services.earnings_mature(now=clock.now())


@shared_task(name="billing.deposits_read", queue="money")
def deposits_read() -> int:
    return services.deposits_read(now=clock.now())

from __future__ import annotations

from celery import shared_task

from benchmarks import services
from core import clock


@shared_task(name="benchmarks.runs_dispatch")
def runs_dispatch() -> int:
    return services.runs_dispatch(now=clock.now())


@shared_task(name="benchmarks.runs_expire")
def runs_expire() -> int:
    return services.runs_expire(now=clock.now())


@shared_task(name="benchmarks.runs_request_weekly")
def runs_request_weekly() -> int:
    """Everything that is asked for by the calendar or by lot."""
    now = clock.now()
    asked = services.runs_request_for_suite(now=now)
    return asked + services.runs_request_weekly(now=now) + services.runs_request_surprise(now=now)


@shared_task(name="benchmarks.proofs_decide")
def proofs_decide() -> int:
    now = clock.now()
    services.proofs_withheld_review(now=now)
    return services.proofs_decide(now=now)

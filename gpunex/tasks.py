from __future__ import annotations

from celery import shared_task

from core import clock
from gpunex.agent_events import events_forget


@shared_task(name="gpunex.events_forget")
def events_forget_task() -> int:
    return events_forget(now=clock.now())

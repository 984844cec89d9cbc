"""News travels up: a low app publishes inside its transaction, each consumer of the wiring gets one Delivery row.

Consumers claim rows with SKIP LOCKED, so several workers share the work, and a handler that fails is tried again later.
The wiring (topic → consumers, consumer → handler) is an explicit list in ``gpunex.wiring``; core only knows where to look.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Count, F, Min
from django.utils.module_loading import import_string

from core import clock, jobs
from core.models import Delivery

log = structlog.get_logger(__name__)

RETRY_SECONDS = (5, 30, 120, 600, 3600)
"""Waits after a failed handler; the last one repeats. Nothing is ever dropped: an old open delivery is an alert."""
BATCH = 100

Handler = Callable[[UUID], None]
"""A consumer's verb: takes the subject's id; may run twice, late or beside its twin."""


@dataclass(frozen=True)
class Wiring:
    topics: Mapping[str, Sequence[str]]
    handlers: Mapping[str, str]  # consumer → dotted path of its handler


def wiring() -> Wiring:
    found: Wiring = import_string(settings.NEWS_WIRING)
    return found


def publish(topic: str, subject: UUID, *, now: datetime) -> None:
    """Write one Delivery per consumer of ``topic``, in the present transaction. An unknown topic is a programming error."""
    publish_many(topic, [subject], now=now)


def publish_many(topic: str, subjects: Sequence[UUID], *, now: datetime) -> None:
    """The same for many subjects, in one statement."""
    consumers = wiring().topics[topic]
    deliveries = [
        Delivery(consumer=name, topic=topic, subject=subject, published_at=now, retry_at=now)
        for subject in subjects
        for name in consumers
    ]
    if deliveries:
        Delivery.objects.bulk_create(deliveries)
        jobs.enqueue("core.news_deliver")


def open_before(instant: datetime) -> tuple[int, datetime | None]:
    """How many deliveries published before ``instant`` are still open, and when the oldest was published."""
    rows = Delivery.objects.filter(done_at__isnull=True, published_at__lt=instant)
    found = rows.aggregate(number=Count("pk"), oldest=Min("published_at"))
    return found["number"], found["oldest"]


def deliver(limit: int = BATCH) -> int:
    """Hand due deliveries to their handlers, each in a transaction of its own; returns how many were taken."""
    taken = 0
    while taken < limit and _deliver_one():
        taken += 1
    return taken


def _deliver_one() -> bool:
    now = clock.now()
    handlers = wiring().handlers
    with transaction.atomic():
        due = Delivery.objects.filter(done_at__isnull=True, retry_at__lte=now).order_by("retry_at", "id")
        row = due.select_for_update(skip_locked=True).first()
        if row is None:
            return False
        try:
            with transaction.atomic():
                import_string(handlers[row.consumer])(row.subject)
        except Exception as error:
            wait = RETRY_SECONDS[min(row.attempts, len(RETRY_SECONDS) - 1)]
            log.exception("news_handler_failed", consumer=row.consumer, topic=row.topic, subject=str(row.subject))
            Delivery.objects.filter(pk=row.pk).update(
                attempts=F("attempts") + 1, retry_at=now + timedelta(seconds=wait), error=repr(error)[:500]
            )
        else:
            Delivery.objects.filter(pk=row.pk).update(done_at=now, attempts=F("attempts") + 1, error="")
    return True

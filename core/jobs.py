"""Services enqueue jobs by name after commit, so they never import tasks.

    jobs.enqueue("billing.payout_submit", payout_id=str(payout.id))

Enqueueing never fails a committed request: a broker that is down for longer than a second is logged, and the one-minute
sweepers find the work in the database.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import structlog
from celery import current_app
from django.db import transaction

log = structlog.get_logger(__name__)

QUEUES = ("default", "money", "bench", "sweep")
"""``money`` workers alone reach the signer; ``sweep`` is never behind customers' work."""

Argument = str | int | bool | None


def enqueue(name: str, **arguments: Argument) -> None:
    """Send the named job after the present transaction commits. The names must be registered (a test checks every call)."""
    transaction.on_commit(partial(_send, name, arguments), robust=True)


def _send(name: str, arguments: dict[str, Any]) -> None:
    try:
        current_app.send_task(name, kwargs=arguments, retry=False)
    except Exception:
        log.warning("job_not_enqueued", job=name, arguments=arguments, exc_info=True)

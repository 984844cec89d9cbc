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

QUEUES = ("mail", "default", "money", "bench", "sweep")
"""A worker takes from its queues in turn, so each has an end to itself; ``gpunex.routes`` says which job goes where.

Somebody waits for a ``mail``, which is therefore behind other mails only; ``money`` workers alone reach the signer;
``sweep`` is never behind customers' work.
"""

Argument = str | int | bool | None


def enqueue(name: str, **arguments: Argument) -> None:
    """Send the named job after the present transaction commits. The names must be registered (a test checks every call)."""
    transaction.on_commit(partial(_send, name, arguments), robust=True)


def _send(name: str, arguments: dict[str, Any]) -> None:
    try:
        current_app.send_task(name, kwargs=arguments, retry=False, expires=None if arguments else _lifetime(name))
    except Exception:
        log.warning("job_not_enqueued", job=name, arguments=arguments, exc_info=True)


def _lifetime(name: str) -> float | None:
    """Seconds after which the schedule has sent the same job again; None for one that is in no schedule.

    A burst of news enqueues its delivery a hundred times, and the first one delivers all: on a busy worker the others are
    dropped, unread, instead of keeping everything behind them waiting.
    """
    entries = current_app.conf.beat_schedule.values()
    return next((entry["options"]["expires"] for entry in entries if entry["task"] == name), None)

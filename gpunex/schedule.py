"""Every periodic verb, its pace and its queue. Each claims its slot or takes row leases, so two beats are harmless."""

from __future__ import annotations

from typing import Any

MINUTE = 60.0
HOUR = 60 * MINUTE


def every(task: str, seconds: float, queue: str = "sweep") -> dict[str, Any]:
    # A run that waited longer than its own period is dropped: the next one does its work.
    return {"task": task, "schedule": seconds, "options": {"queue": queue, "expires": max(seconds, 5.0)}}


SCHEDULE: dict[str, dict[str, Any]] = {
    "news": every("core.news_deliver", 5.0, "default"),
    "mails": every("accounts.mails_sweep", MINUTE),
    "earnings": every("billing.earnings_mature", MINUTE, "default"),
    "invariants": every("core.invariants_check", 15 * MINUTE),
    "partitions": every("core.partitions_keep", 6 * HOUR),
}

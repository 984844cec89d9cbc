"""Cancelling and ordering stops. A stop is part of the machine's plan, so it is repeated until the machine confirms it."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction

from marketplace.models import Attempt, Job
from marketplace.states import ATTEMPT, JOB, OFFER_SECONDS, STOP_SECONDS
from providers.models import PlanItem
from providers.services import plan_put

ATTEMPT_KIND = "attempt"
"""The kind of our plan items."""


def job_cancel(*, job: Job, actor: object, now: datetime, reason: str = "cancelled") -> Job:
    """Cancel in whatever state it is; twice is once, and an ended job stays as it ended.

    A queued job is cancelled at once. An active one stops being charged now and is cancelled when its machine confirms.
    ``reason``: ``cancelled`` (the customer) or ``platform_stop`` (staff).
    """
    with transaction.atomic():
        job = Job.objects.select_for_update().get(pk=job.pk)
        if job.ended or job.cancel_requested_at is not None:
            return job
        if job.status == Job.Status.QUEUED:
            changes = {"ended_at": now, "cancel_requested_at": now, "reason": reason, "secrets": None, "waiting": ""}
            JOB.move(job, to="cancelled", actor=actor, reason=reason, at=now, changes=changes)
            return job
        Job.objects.filter(pk=job.pk).update(cancel_requested_at=now)
        job.cancel_requested_at = now
        attempt = Attempt.objects.select_for_update().exclude(status="ended").get(job=job)
        attempt_stop(attempt=attempt, reason=reason, actor=actor, now=now)
    return job


def attempt_stop(*, attempt: Attempt, reason: str, actor: object, now: datetime) -> None:
    """Order a locked, live attempt to stop (TERM, 30 s, KILL on the machine). The first order counts; charging ends now.

    ``reason``: one of agent_protocol.reasons.STOP_REASONS.
    """
    if attempt.stop_requested_at is not None:
        return
    # One that was never taken up has nothing to stop: as with an offer, a machine that says nothing loses it.
    wait = OFFER_SECONDS if attempt.taken_up_at is None else STOP_SECONDS
    changes = {"stop_requested_at": now, "stop_reason": reason, "lease_until": now + timedelta(seconds=wait)}
    if attempt.status == Attempt.Status.STOPPING:
        Attempt.objects.filter(pk=attempt.pk).update(**changes)
        for name, value in changes.items():
            setattr(attempt, name, value)
    else:
        ATTEMPT.move(attempt, to="stopping", actor=actor, reason=reason, at=now, changes=changes)
    plan = PlanItem.objects.filter(machine_id=attempt.machine_id, kind=ATTEMPT_KIND, key=attempt.pk)
    body = plan.values_list("body", flat=True).first()
    if body is not None:
        stop = {**body, "desired": "stop", "stop_reason": reason}
        plan_put(machine_id=attempt.machine_id, kind=ATTEMPT_KIND, key=attempt.pk, body=stop, now=now)


def attempt_stop_by_id(*, attempt_id: UUID, reason: str, actor: object, now: datetime) -> bool:
    """Order a stop from outside of a transaction; False when the attempt has ended. Locks job, then attempt."""
    with transaction.atomic():
        if not Job.objects.select_for_update().filter(attempts=attempt_id).exists():
            return False
        attempt = Attempt.objects.select_for_update().exclude(status="ended").filter(pk=attempt_id).first()
        if attempt is None:
            return False
        attempt_stop(attempt=attempt, reason=reason, actor=actor, now=now)
    return True


def jobs_stop(*, customer_id: UUID, actor: object, now: datetime) -> int:
    """The platform stops every job of a customer (suspension, abuse); returns how many. They read ``platform_stop``."""
    live = list(Job.objects.filter(customer_id=customer_id, status__in=["queued", "active"]).order_by("pk"))
    for job in live:
        job_cancel(job=job, actor=actor, now=now, reason="platform_stop")
    return len(live)

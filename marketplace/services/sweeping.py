"""What happens when nothing is heard: every live attempt has a lease, and this is who acts when it runs out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID

import structlog
from django.db import DatabaseError, transaction
from django.db.models import DateTimeField, DurationField, ExpressionWrapper, F, Value

from core.errors import DomainError
from core.spans import ZERO
from core.states import SYSTEM
from marketplace.models import Attempt, Job
from marketplace.services.closing import attempt_close
from marketplace.services.stopping import attempt_stop_by_id
from marketplace.states import LIMIT_MARGIN_SECONDS, PARTITION_MARGIN_SECONDS
from reliability.selectors import listened_between

log = structlog.get_logger(__name__)

HEARD_SECONDS = 90
"""A machine heard from within this time is reachable (beyond it, reliability calls it offline)."""
BATCH = 500

_EXPIRED = {"offered": "lease_expired", "pulling": "never_started", "starting": "never_started", "running": "offline"}


def attempts_sweep(*, now: datetime) -> int:
    """Act on every lease that ran out and every overdue time limit; returns how many attempts were touched.

    Offered: back to the queue. Pulling, starting: never started. Running: the machine has been away for the job's grace
    and five minutes in which we listened, so its agent has stopped it: lost. Stopping: see _stop_overdue.
    """
    due = Attempt.objects.exclude(status="ended").filter(lease_until__lte=now).order_by("lease_until")
    touched = sum(_alone(_expire, attempt_id, now) for attempt_id in due.values_list("pk", flat=True)[:BATCH])
    return touched + sum(_alone(_stop_over_limit, attempt_id, now) for attempt_id in _over_limit(now))


def _alone(act: Callable[[UUID, datetime], bool], attempt_id: UUID, now: datetime) -> bool:
    """One attempt that cannot be acted on must not keep the GPUs and holds of all that come after it."""
    try:
        return act(attempt_id, now)
    except (DatabaseError, DomainError):
        log.exception("attempt_not_swept", attempt=str(attempt_id))
        return False


def _stop_over_limit(attempt_id: UUID, now: datetime) -> bool:
    return attempt_stop_by_id(attempt_id=attempt_id, reason="time_limit", actor=SYSTEM, now=now)


def _over_limit(now: datetime) -> list[UUID]:
    allowed = ExpressionWrapper(
        (F("job__time_limit_s") + LIMIT_MARGIN_SECONDS) * Value(timedelta(seconds=1)), output_field=DurationField()
    )
    over = ExpressionWrapper(F("started_at") + allowed, output_field=DateTimeField())
    running = Attempt.objects.filter(status="running", stop_requested_at__isnull=True).annotate(over_at=over)
    return list(running.filter(over_at__lte=now).values_list("pk", flat=True)[:BATCH])


def _expire(attempt_id: UUID, now: datetime) -> bool:
    with transaction.atomic():
        if not Job.objects.select_for_update(skip_locked=True).filter(attempts=attempt_id).exists():
            return False
        attempt = Attempt.objects.select_for_update(of=("self",)).select_related("job").get(pk=attempt_id)
        # It may have been heard of since we looked.
        if attempt.status == Attempt.Status.ENDED or attempt.lease_until is None or attempt.lease_until > now:
            return False
        if attempt.status == Attempt.Status.STOPPING:
            return _stop_overdue(attempt, now)
        if attempt.status == Attempt.Status.RUNNING and (left := _patience_left(attempt, now)) > ZERO:
            Attempt.objects.filter(pk=attempt.pk).update(lease_until=now + left)
            return True
        return attempt_close(attempt_id=attempt.pk, reason=_EXPIRED[attempt.status], actor=SYSTEM, now=now)


def _patience_left(attempt: Attempt, now: datetime) -> timedelta:
    """For how much longer the silence of a running attempt is borne: while we were away ourselves it does not count."""
    patience = timedelta(seconds=attempt.job.disconnect_grace_s + PARTITION_MARGIN_SECONDS)
    return patience - listened_between(since=attempt.confirmed_at or attempt.created_at, until=now)


def _stop_overdue(attempt: Attempt, now: datetime) -> bool:
    """A stop that was not confirmed in time.

    The machine is there but does not confirm: the attempt ends, its GPUs stay out of use until it does. The machine is
    away: its agent stops the job by itself after the grace, so we wait that long before the GPUs count as free.
    """
    reason = attempt.stop_reason or "unknown"
    heard = attempt.confirmed_at
    if heard is None or attempt.taken_up_at is None:
        return attempt_close(attempt_id=attempt.pk, reason=reason, actor=SYSTEM, now=now)
    if heard >= now - timedelta(seconds=HEARD_SECONDS):
        return attempt_close(attempt_id=attempt.pk, reason=reason, actor=SYSTEM, now=now, free_gpus=False)
    alone = heard + timedelta(seconds=attempt.job.disconnect_grace_s + PARTITION_MARGIN_SECONDS)
    if alone > now:
        Attempt.objects.filter(pk=attempt.pk).update(lease_until=alone)
        return True
    return attempt_close(attempt_id=attempt.pk, reason=reason, actor=SYSTEM, now=now)

"""How an attempt ends: one function for every road there, and everything that follows in the same transaction.

Lock order: job, attempt, rental, listing (with its GPUs' claims), machine (its plan). Money follows in a transaction of
its own (services.settlement), so that no ledger trouble can keep a GPU from being freed.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction

from accounts.services import notification_send
from agent_protocol.reasons import COMPLETED, Owner, reason_get
from core import jobs
from marketplace import outcomes
from marketplace.models import Attempt, Job, Listing, Rental
from marketplace.services.listings import listing_recount
from marketplace.services.stopping import ATTEMPT_KIND
from marketplace.states import ATTEMPT, JOB
from providers.services import gpus_release, plan_remove
from reliability.services import incident_record, outcome_record


def attempt_close(
    *,
    attempt_id: UUID,
    reason: str,
    actor: object,
    now: datetime,
    exit_code: int | None = None,
    message_code: str = "",
    free_gpus: bool = True,
) -> bool:
    """End an attempt, free its GPUs, tell the score, and move its job on. False when it had ended before.

    ``free_gpus=False``: the stop was not confirmed; the GPUs stay claimed and the stop stays in the plan until it is.
    """
    with transaction.atomic():
        job = Job.objects.select_for_update(of=("self",)).select_related("customer").get(attempts=attempt_id)
        attempt = Attempt.objects.select_for_update().get(pk=attempt_id)
        if attempt.status == Attempt.Status.ENDED:
            return False
        changes = {
            "ended_at": now,
            "reason": reason,
            "exit_code": exit_code,
            "message_code": message_code,
            "lease_until": None,
            "kept_gpus": not free_gpus,
        }
        ATTEMPT.move(attempt, to="ended", actor=actor, reason=reason, at=now, changes=changes)
        rental = Rental.objects.select_for_update(of=("self",)).get(attempt=attempt)
        Rental.objects.filter(pk=rental.pk).update(ended_at=now)
        if free_gpus:
            _free(attempt, rental, now)
        _score(attempt, rental, now)
        _move_on(job, attempt, actor, now)
        jobs.enqueue("marketplace.rental_settle", rental_id=str(rental.pk))
        jobs.enqueue("marketplace.jobs_place")
    return True


def kept_gpus_free(*, attempt: Attempt, now: datetime) -> None:
    """The machine confirmed, late, that an ended attempt is gone: its GPUs may be rented again."""
    with transaction.atomic():
        freed = Attempt.objects.filter(pk=attempt.pk, kept_gpus=True).update(kept_gpus=False)
        if freed:
            _free(attempt, Rental.objects.get(attempt=attempt), now)
            jobs.enqueue("marketplace.jobs_place")


def _free(attempt: Attempt, rental: Rental, now: datetime) -> None:
    listing = (
        Listing.objects.select_for_update()
        .filter(machine_id=attempt.machine_id, gpu_model_id=rental.gpu_model_id)
        .first()
    )
    gpus_release(holder=attempt.pk, now=now)
    if listing is not None:
        listing_recount(listing=listing)
    plan_remove(machine_id=attempt.machine_id, kind=ATTEMPT_KIND, key=attempt.pk, now=now)


def _score(attempt: Attempt, rental: Rental, now: datetime) -> None:
    """Completed jobs speak for the provider, the provider's faults against it; everybody else's say nothing."""
    reason = reason_get(attempt.reason)
    gpu_seconds = rental.gpus * (attempt.confirmed_elapsed_s or 0)
    source = f"attempt:{attempt.pk}"
    completed = True if reason.code == COMPLETED else False if reason.scored and attempt.taken_up_at else None
    outcome_record(
        source=source,
        provider_id=attempt.provider_id,
        machine_id=attempt.machine_id,
        completed=completed,
        gpu_seconds=gpu_seconds,
        at=now,
    )
    if reason.owner is Owner.PROVIDER:
        incident_record(
            source=source,
            provider_id=attempt.provider_id,
            machine_id=attempt.machine_id,
            gpu_id=None,
            reason=reason.code,
            owner=str(reason.owner),
            # An offer that was not taken up is noted, but no job was broken by it.
            weight_seconds=gpu_seconds if attempt.taken_up_at else None,
            at=now,
        )


def _move_on(job: Job, attempt: Attempt, actor: object, now: datetime) -> None:
    outcome = outcomes.decide(
        reason=attempt.reason,
        cancel_requested=job.cancel_requested_at is not None,
        tries=job.attempts.filter(taken_up_at__isnull=False).count(),
        max_attempts=job.max_attempts,
        never_accepted=attempt.taken_up_at is None,
    )
    if outcome.job == Job.Status.QUEUED:
        # The day that a job may wait does not include the hours it ran. An offer that nobody took up is still the same wait.
        since = job.queued_at if attempt.taken_up_at is None else now
        changes = {"waiting": "", "queued_at": since}
        JOB.move(job, to="queued", actor=actor, reason=attempt.reason, at=now, changes=changes)
        return
    changes = {"ended_at": now, "reason": attempt.reason, "secrets": None}
    JOB.move(job, to=outcome.job, actor=actor, reason=attempt.reason, at=now, changes=changes)
    if outcome.job in (Job.Status.FAILED, Job.Status.LOST):
        job_end_tell(job=job, now=now)


def job_end_tell(*, job: Job, now: datetime) -> None:
    """Write to the customer that a job ended badly, and why."""
    words = outcomes.JOB_REASONS.get(job.reason) or outcomes.reason_words(job.reason)
    status = Job.Status(job.status).label
    context = {"job_name": job.name or str(job.pk)[:8], "status": status, "reason": words, "image": job.image}
    notification_send(party=job.customer, kind="job_ended", context=context, url=f"/jobs/{job.pk}/", now=now)

"""What agents say about attempts. Their word is evidence: it is checked against the token, the boot and our orders.

Reports come twice, late and out of order. Twice is once; an earlier state than ours moves nothing; a report under a
token that is not the attempt's, or from another boot, is refused and kept.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from agent_protocol.messages.events import AttemptEnded
from agent_protocol.messages.sync import AttemptStatus
from marketplace import outcomes
from marketplace.models import Attempt, Rental
from marketplace.services.closing import attempt_close, kept_gpus_free
from marketplace.services.fencing import attempt_fence, attempt_of, evidence_keep
from marketplace.states import (
    ATTEMPT,
    ATTEMPT_ORDER,
    PARTITION_MARGIN_SECONDS,
    PULL_SECONDS,
    START_SECONDS,
    STOP_SECONDS,
)
from providers.models import Machine
from reliability.selectors import listened_between

CONFIRM_SECONDS = 20
"""How often a running attempt's evidence is written at most: syncs pass it on every 30 s, metering promises 60 s."""


def attempt_observe(*, machine: Machine, status: AttemptStatus, now: datetime) -> None:
    """Take note of one attempt in a sync. Raises NotFound (not this machine's) or StaleToken (kept as evidence)."""
    attempt = attempt_of(machine=machine, attempt_id=status.attempt_id)
    attempt_fence(attempt=attempt, machine=machine, token=status.token, report=status.to_dict(), now=now)
    if status.state == "ended":
        _end(
            attempt,
            machine,
            reported=status.reason or "unknown",
            exit_code=status.exit_code,
            elapsed_s=status.elapsed_s,
            message_code="",
            report=status.to_dict(),
            now=now,
        )
    elif attempt.status == Attempt.Status.ENDED:
        evidence_keep(attempt=attempt, machine=machine, code="after_end", report=status.to_dict(), now=now)
    elif attempt.boot_id and attempt.boot_id != machine.boot_id:
        # Nothing of an attempt survives a reboot: whoever says so is wrong about one of the two.
        evidence_keep(attempt=attempt, machine=machine, code="other_boot", report=status.to_dict(), now=now)
    elif _worth_writing(attempt, status, now):
        _advance(attempt, machine, status, now)


def attempt_end(*, machine: Machine, event: AttemptEnded, now: datetime) -> None:
    """Take the agent's terminal report. Twice is once. Raises NotFound or StaleToken (kept as evidence)."""
    attempt = attempt_of(machine=machine, attempt_id=event.attempt_id)
    attempt_fence(attempt=attempt, machine=machine, token=event.token, report=event.to_dict(), now=now)
    reported = "out_of_memory" if event.oom_killed and event.reason == "nonzero_exit" else event.reason
    _end(
        attempt,
        machine,
        reported=reported,
        exit_code=event.exit_code,
        elapsed_s=event.elapsed_s,
        message_code=event.message_code or "",
        report=event.to_dict(),
        now=now,
    )


def _worth_writing(attempt: Attempt, status: AttemptStatus, now: datetime) -> bool:
    if ATTEMPT_ORDER[status.state] > ATTEMPT_ORDER[attempt.status] or attempt.confirmed_at is None:
        return True
    return now - attempt.confirmed_at >= timedelta(seconds=CONFIRM_SECONDS)


def _advance(attempt: Attempt, machine: Machine, status: AttemptStatus, now: datetime) -> None:
    with transaction.atomic():
        attempt = Attempt.objects.select_for_update(of=("self",)).select_related("job").get(pk=attempt.pk)
        if attempt.status == Attempt.Status.ENDED:
            return
        # Before the move below: how early the container can have started depends on what we knew until now.
        started = _started(attempt, status.elapsed_s, now) if status.state in ("running", "stopping") else None
        changes = _confirmed(attempt, machine, status.elapsed_s, now)
        if started is not None:
            changes["started_at"] = started
        forward = ATTEMPT_ORDER[status.state] > ATTEMPT_ORDER[attempt.status]
        state = status.state if forward else attempt.status
        if (lease := _lease(attempt, state, forward=forward, now=now)) is not None:
            changes["lease_until"] = lease
        if forward:
            ATTEMPT.move(attempt, to=state, actor=f"agent:{machine.pk}", at=now, changes=changes)
        else:
            Attempt.objects.filter(pk=attempt.pk).update(**changes)
        if started is not None:
            Rental.objects.filter(attempt=attempt, started_at__isnull=True).update(started_at=started)


def _confirmed(attempt: Attempt, machine: Machine, elapsed_s: int | None, now: datetime) -> dict[str, Any]:
    """What an accepted report adds to the evidence. The agent's elapsed seconds never run backwards."""
    changes: dict[str, Any] = {"confirmed_at": now, "boot_id": machine.boot_id}
    if attempt.taken_up_at is None:
        changes["taken_up_at"] = now
    if elapsed_s is not None:
        changes["confirmed_elapsed_s"] = max(elapsed_s, attempt.confirmed_elapsed_s or 0)
    return changes


def _started(attempt: Attempt, elapsed_s: int | None, now: datetime) -> datetime | None:
    """When the container started by server time: as long ago as the agent says, but not before we last heard that it had
    not. None when that is known already, or when the agent does not know."""
    if attempt.started_at is not None or elapsed_s is None:
        return None
    earliest = attempt.confirmed_at or attempt.created_at
    # Compared as seconds first: what an agent may say reaches back further than dates do.
    if elapsed_s >= (now - earliest).total_seconds():
        return earliest
    return now - timedelta(seconds=elapsed_s)


def _lease(attempt: Attempt, state: str, *, forward: bool, now: datetime) -> datetime | None:
    """Until when silence is borne in ``state``; None leaves it as it is."""
    if state == "running":
        return now + timedelta(seconds=attempt.job.disconnect_grace_s + PARTITION_MARGIN_SECONDS)
    if not forward:
        return None
    return now + timedelta(
        seconds={"pulling": PULL_SECONDS, "starting": START_SECONDS, "stopping": STOP_SECONDS}[state]
    )


def _end(
    attempt: Attempt,
    machine: Machine,
    *,
    reported: str,
    exit_code: int | None,
    elapsed_s: int | None,
    message_code: str,
    report: dict[str, Any],
    now: datetime,
) -> None:
    if attempt.status == Attempt.Status.ENDED:
        if attempt.kept_gpus:
            kept_gpus_free(attempt=attempt, now=now)
        elif attempt.reason != reported:
            evidence_keep(attempt=attempt, machine=machine, code="after_end", report=report, now=now)
        return
    with transaction.atomic():
        # Job first, then attempt: the order in which everything that ends one locks.
        job = type(attempt.job).objects.select_for_update().get(pk=attempt.job_id)
        attempt = Attempt.objects.select_for_update(of=("self",)).select_related("job").get(pk=attempt.pk)
        if attempt.status != Attempt.Status.ENDED:
            heard_at = attempt.confirmed_at or attempt.created_at
            _last_evidence(attempt, machine, elapsed_s, now)
            reason = outcomes.reason_judge(
                reported=reported,
                exit_code=exit_code,
                ordered=attempt.stop_reason or None,
                elapsed_s=elapsed_s,
                limit_s=job.time_limit_s,
            )
            if reason == "offline" and _silence_was_ours(heard_at, now, grace_s=job.disconnect_grace_s):
                reason = "platform_outage"
            attempt_close(
                attempt_id=attempt.pk,
                reason=reason,
                exit_code=exit_code,
                message_code=message_code,
                actor=f"agent:{machine.pk}",
                now=now,
            )


def _silence_was_ours(heard_at: datetime, now: datetime, *, grace_s: int) -> bool:
    """Whether an agent that stopped its job after the grace would have reached us but for our own outage."""
    grace = timedelta(seconds=grace_s)
    return listened_between(since=heard_at, until=now) < grace <= now - heard_at


def _last_evidence(attempt: Attempt, machine: Machine, elapsed_s: int | None, now: datetime) -> None:
    """The final report counts as evidence too, unless the machine has rebooted since: then what was confirmed stands, and an
    offer that nobody had taken up before is one that nobody took up."""
    if attempt.boot_id and attempt.boot_id != machine.boot_id:
        return
    started = _started(attempt, elapsed_s, now) if elapsed_s else None
    changes = _confirmed(attempt, machine, elapsed_s, now)
    if started is not None:
        changes["started_at"] = started
        Rental.objects.filter(attempt=attempt, started_at__isnull=True).update(started_at=started)
    Attempt.objects.filter(pk=attempt.pk).update(**changes)

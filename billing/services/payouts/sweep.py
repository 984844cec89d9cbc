"""Recovery and progress: every payout that is due is taken a pass further, every run that waits is tried again."""

from __future__ import annotations

import time
from datetime import datetime

import structlog
from django.db.models import Q

from billing.models import Payout, PayoutRun, Rail
from billing.services.payouts.advance import payout_advance
from billing.services.payouts.release import payout_run_start
from billing.services.payouts.runs import runs_finish
from core.slots import slot_claim

log = structlog.get_logger(__name__)

RUNS_EVERY_MINUTES = 10
"""A paused run is looked at this often: the look reads all the books and asks the chain."""
SWEEP_SECONDS = 20.0
"""A sweep hands over to the next one after this long; leases let several work side by side."""
BATCH = 200


def payouts_sweep(*, now: datetime) -> int:
    """Advance what is due; returns how many passes were made. A crash anywhere is mended by the next sweep."""
    _start_runs(now)
    free = Q(lease_until__isnull=True) | Q(lease_until__lte=now)
    due = Payout.objects.filter(free, status__in=Payout.ADVANCING, rail=Rail.USDC, next_look_at__lte=now).order_by(
        "next_look_at"
    )
    began, passes = time.monotonic(), 0
    for payout_id in list(due.values_list("pk", flat=True)[:BATCH]):
        if time.monotonic() - began > SWEEP_SECONDS:
            break
        try:
            payout_advance(payout_id=payout_id, now=now)
        except Exception:
            # One payout that cannot be advanced must not hold up the others; it is looked at again next time.
            log.exception("payout_pass_failed", payout=str(payout_id))
        passes += 1
    runs_finish(now=now)
    return passes


def _start_runs(now: datetime) -> None:
    slot = now.replace(minute=now.minute // RUNS_EVERY_MINUTES * RUNS_EVERY_MINUTES).strftime("%Y-%m-%dT%H:%M")
    if not slot_claim("billing.payout_runs_start", slot, now=now):
        return
    waiting = (PayoutRun.Status.PLANNED, PayoutRun.Status.PAUSED)
    for run in PayoutRun.objects.filter(status__in=waiting, planned_at__isnull=False).order_by("created_at"):
        try:
            payout_run_start(run_id=run.pk, now=now)
        except Exception:
            # What is signed already has to be followed, whatever becomes of a run that waits.
            log.exception("payout_run_not_started", run=str(run.pk))

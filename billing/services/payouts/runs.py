"""A run's own moves: pausing it with a reason, closing it, and the switch that stops all payouts."""

from __future__ import annotations

from datetime import datetime

import structlog
from django.db import transaction

from billing.models import Payout, PayoutRun, PayoutSwitch
from billing.selectors.payouts import match_missing, payouts_frozen
from billing.services.audit import audit_record
from billing.states import PAYOUT_RUN
from core.errors import Conflict, Invalid
from core.locks import lock_name
from core.states import actor_name

log = structlog.get_logger(__name__)

SWITCH_LOCK = "billing:payouts:switch"
"""Held while the switch is turned and while an attempt is recorded: when a freeze has returned, nothing new is signed."""


def run_pause(run: PayoutRun, *, reason: str, now: datetime) -> None:
    """Stop a run that is not released, and say why; the sweeper tries it again."""
    log.error("payout_run_paused", run=str(run.pk), reason=reason)
    if run.status == PayoutRun.Status.PAUSED:
        PayoutRun.objects.filter(pk=run.pk, status=PayoutRun.Status.PAUSED).update(pause_reason=reason[:200])
    else:
        changes = {"pause_reason": reason[:200]}
        PAYOUT_RUN.move(run, to=PayoutRun.Status.PAUSED, reason=reason, at=now, changes=changes)


def runs_finish(*, now: datetime) -> int:
    """Close planned and released runs of which every payout is settled or cancelled."""
    closed = 0
    open_payouts = Payout.objects.filter(status__in=Payout.OPEN).values("run")
    states = (PayoutRun.Status.PLANNED, PayoutRun.Status.RELEASED)
    planned = PayoutRun.objects.filter(status__in=states, bank_planned_at__isnull=False)
    for run in planned.exclude(pk__in=open_payouts):
        PAYOUT_RUN.move(run, to=PayoutRun.Status.FINISHED, at=now)
        closed += 1
    return closed


def payouts_freeze(
    *, frozen: bool, reason: str, now: datetime, actor: object | None = None, restored: bool = False
) -> PayoutSwitch:
    """Stop (or go on with) signing for everybody. What is signed already is followed to its end.

    ``restored``: the books come from a backup; the thaw waits for a look at the chain that leaves nothing open.
    Raises Invalid (reason), Conflict (a thaw before that look; the database refuses it, too).
    """
    if not reason.strip():
        raise Invalid.field("reason", found=reason, allowed="a sentence for those who read it later")
    log.warning("payouts_switched", frozen=frozen, reason=reason)
    with transaction.atomic():
        lock_name(SWITCH_LOCK)
        if not frozen and match_missing():
            raise Conflict(
                "The books were restored, and payments on chain are not matched with them yet: manage.py payouts match."
            )
        before = {"frozen": payouts_frozen() is not None}
        switch = PayoutSwitch.objects.create(
            frozen=frozen, reason=reason.strip()[:200], actor=actor_name(actor), at=now, restored=restored
        )
        after = {"frozen": frozen}
        audit_record(
            verb="payouts_freeze",
            subject=switch,
            actor=actor,
            before=before,
            after=after,
            reason=reason.strip(),
            now=now,
        )
        return switch

"""A run that nobody has released by noon of its day is said to those who can: providers count on their pay day."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import Count, Q, Sum

from accounts.models import User
from accounts.services import notification_send
from billing.models import Payout, PayoutRun
from core.slots import slot_claim

ALERT_HOUR = 12
"""UTC. Late enough that Europe's morning was enough to release it, early enough that the day still is one."""


def runs_alert(*, now: datetime) -> int:
    """Write to everybody who may approve payouts about each run that waits, once a day; returns the number of letters."""
    if now.hour < ALERT_HOUR:
        return 0
    readers, letters = list(_approvers()), 0
    for run in _waiting_runs(now):
        with transaction.atomic():
            if not slot_claim("billing.run_alert", f"{run} {now.date().isoformat()}", now=now):
                continue
            waiting = run.payouts.filter(status=Payout.Status.AWAITING_RELEASE)
            found = waiting.aggregate(number=Count("pk"), total=Sum("amount_micro"))
            context = {
                "run": str(run),
                "reason": run.pause_reason,
                "number": found["number"],
                "total": found["total"] or 0,
            }
            url = f"/admin/billing/payoutrun/{run.pk}/change/"
            for reader in readers:
                letters += len(notification_send(kind="run_waits", context=context, user=reader, url=url, now=now))
    return letters


def _waiting_runs(now: datetime) -> list[PayoutRun]:
    """Of a period that is over: not planned, paused, or with payouts that two people have to release."""
    due = PayoutRun.objects.filter(period_end__lte=now.date()).exclude(status=PayoutRun.Status.FINISHED)
    stuck = Q(status__in=(PayoutRun.Status.PLANNING, PayoutRun.Status.PAUSED))
    unreleased = Q(payouts__status=Payout.Status.AWAITING_RELEASE)
    return list(due.filter(stuck | unreleased).distinct().order_by("created_at"))


def _approvers() -> list[User]:
    right = {"codename": "add_payoutapproval", "content_type__app_label": "billing"}
    theirs = Q(**{f"user_permissions__{name}": value for name, value in right.items()})
    groups = Q(**{f"groups__permissions__{name}": value for name, value in right.items()})
    staff = User.objects.filter(is_staff=True, is_active=True)
    return list(staff.filter(theirs | groups | Q(is_superuser=True)).distinct().order_by("pk"))

"""Who may let money go, and how much of it in a day."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Sum

from accounts.models import User
from billing.models import DestinationFreeze, Payout, PolicyRow
from billing.selectors.policies import policy_value
from core.errors import Conflict, Denied
from core.locks import lock_name
from core.money import format_usdc
from core.states import actor_name

ROLLING = timedelta(hours=24)
QUIET = timedelta(days=7)
"""Whoever moved a limit, or cleared somebody's freeze, must not be the one who profits from it the same week."""
RELEASE_LOCK = "billing:payouts:release"
LIMITS = ("release_limit_micro", "payout_limit_micro", "signing_day_limit_micro", "signing_destination_day_limit_micro")


def released_lately_micro(now: datetime) -> int:
    """All that was let go within 24 hours, by whichever rail; what was cancelled afterwards does not count."""
    let_go = Payout.objects.filter(released_at__gt=now - ROLLING).exclude(status=Payout.Status.CANCELLED)
    return int(let_go.aggregate(total=Sum("amount_micro"))["total"] or 0)


def release_limit_check(payout: Payout, now: datetime) -> None:
    """Called in the transaction that releases: two releases at once wait for each other. Raises Conflict."""
    lock_name(RELEASE_LOCK)
    limit, already = policy_value("release_limit_micro", now), released_lately_micro(now)
    if already + payout.amount_micro > limit:
        lately, this, most = (format_usdc(amount) for amount in (already, payout.amount_micro, limit))
        raise Conflict(
            f"payout: {lately} USDC were released within 24 hours, this one is {this}; allowed in all: {most}."
            " Release it later, or raise release_limit_micro."
        )


def approver_check(payout: Payout, approver: User, now: datetime) -> None:
    """Raises Denied: no staff with the right, the payee, or somebody who lately moved a limit or cleared the payee's freeze."""
    if not approver.is_staff or not approver.has_perm("billing.add_payoutapproval"):
        raise Denied("Only staff with the right to approve payouts can do this.")
    if payout.party.members.filter(user=approver).exists():
        raise Denied("Nobody approves a payout to themselves.")
    since = now - QUIET
    if PolicyRow.objects.filter(name__in=LIMITS, set_by=actor_name(approver), valid_from__gt=since).exists():
        raise Denied("You changed a limit of payouts within seven days: others have to approve.")
    if DestinationFreeze.objects.filter(party=payout.party, cleared_by=approver, cleared_at__gt=since).exists():
        raise Denied("You cleared this payee's freeze within seven days: others have to approve.")

"""Spend limits: what a customer allows themselves. Checked under the lock of the customer's account, where holds are placed."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext as _

from accounts.models import Party, PartyMember, User
from billing.models import SpendLimit, SpendNotice
from billing.selectors.spending import (
    PERIODS,
    Spending,
    period_since,
    set_aside_micro,
    spend_limits_of,
    spent_micro,
)
from billing.services.audit import audit_record
from core.errors import Denied, InsufficientFunds, Invalid
from core.locks import lock_name
from core.money import MICRO, format_usdc

LIMIT_MAX_MICRO = 1_000_000 * MICRO
"""A technical bound that catches slips of the keyboard: who wants to allow more has no limit."""
REAUTHENTICATION_REQUIRED = "reauthentication_required"


class SpendLimitReached(InsufficientFunds):
    """The money would be there, but the customer's own limit leaves no room for it (HTTP 402). ``spending``: which, and why."""

    code = "spend_limit"

    def __init__(self, spending: Spending) -> None:
        words = {
            "period": spending.period.label,
            "limit": format_usdc(spending.limit_micro or 0),
            "spent": format_usdc(spending.spent_micro),
            "aside": format_usdc(spending.set_aside_micro),
        }
        sentence = _(
            "Your spend limit for %(period)s is %(limit)s USDC: %(spent)s are spent, and with this job %(aside)s would be set"
            " aside."
        )
        super().__init__(sentence % words, fields={"spend_limit": sentence % words})
        self.spending = spending


def spend_limits_set(
    *, party: Party, limits: Mapping[str, int | None], actor: User, reauthenticated: bool, now: datetime
) -> list[SpendLimit]:
    """Set the limits of the named periods (``day``, ``month``; micro-USDC, None: no limit), all of them or none.

    Returns the rows that were written: a limit that stays as it is writes none. Lowering needs nothing; raising or lifting one
    needs a log-in that was repeated a moment ago. Raises Invalid (field: the period), Denied (not an owner of the account, or
    code ``reauthentication_required``).
    """
    for period, amount in limits.items():
        if period not in PERIODS:
            raise Invalid.field("period", found=period, allowed=", ".join(PERIODS))
        if amount is not None and not 0 < amount <= LIMIT_MAX_MICRO:
            allowed = f"more than 0, at most {format_usdc(LIMIT_MAX_MICRO)} USDC, or nothing for no limit"
            raise Invalid.field(period, found=f"{format_usdc(amount)} USDC", allowed=allowed)
    if not PartyMember.objects.filter(party=party, user=actor, role=PartyMember.Role.OWNER).exists():
        raise Denied(_("Only an owner of the account may set its spend limits."))
    with transaction.atomic():
        # Two who set it at once: the second is held against what the first has set.
        lock_name(f"billing:spend-limit:{party.pk}")
        before = {limit.period: limit.amount_micro for limit in spend_limits_of([party.pk]).get(party.pk, [])}
        changed = {period: amount for period, amount in limits.items() if amount != before.get(period)}
        looser = [period for period, amount in changed.items() if _looser(before.get(period), amount)]
        if looser and not reauthenticated:
            raise Denied(_("Raising a spend limit needs your password again."), code=REAUTHENTICATION_REQUIRED)
        made = [
            SpendLimit.objects.create(party=party, period=period, amount_micro=amount, set_by=actor, created_at=now)
            for period, amount in changed.items()
        ]
        for row in made:
            was, new = {f"{row.period}_micro": before.get(row.period)}, {f"{row.period}_micro": row.amount_micro}
            audit_record(verb="spend_limits_set", subject=row, actor=actor, before=was, after=new, party=party, now=now)
        return made


def _looser(before: int | None, after: int | None) -> bool:
    return before is not None and (after is None or after > before)


def spend_check(*, party: Party, holds: str, now: datetime, more_micro: int = 0) -> None:
    """Raise SpendLimitReached where what is spent, set aside and wanted (``more_micro``) exceeds a limit of the party.

    ``holds``: how the sources of jobs' holds begin. Inside the transaction that has just placed or extended such a hold the
    account's row is locked, so two of them never share the same room.
    """
    for limit in spend_limits_of([party.pk]).get(party.pk, []):
        since = period_since(limit.period, now)
        found = Spending(
            SpendLimit.Period(limit.period),
            limit,
            since,
            spent_micro(party.pk, since),
            set_aside_micro(party.pk, holds) + more_micro,
        )
        if (found.room_micro or 0) < 0:
            raise SpendLimitReached(found)


def spend_notice_take(*, spending: Spending, percent: int, now: datetime) -> bool:
    """True for whoever is to tell, once per period, that ``percent`` (80 or 100) of a limit is reached. Who was told of 100
    is not told of 80 after it. False without a limit. Call it in the transaction that sends the mail."""
    limit = spending.limit
    if limit is None:
        return False
    lock_name(f"billing:spend-notice:{limit.pk}")
    since = period_since(limit.period, now)
    if SpendNotice.objects.filter(limit=limit, percent__gte=percent, period_start__gte=since).exists():
        return False
    start = now if limit.period == SpendLimit.Period.DAY else since
    SpendNotice.objects.create(limit=limit, percent=percent, period_start=start, created_at=now)
    return True

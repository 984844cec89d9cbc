"""What a customer spent and has set aside within the periods of their limits. What came back makes no room: it may belong to
an earlier period."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from django.db import connection
from django.db.models import Sum

from accounts.models import Party
from billing.models import USDC, Account, Hold, SpendLimit

DAY = timedelta(hours=24)
PERIODS = (SpendLimit.Period.DAY, SpendLimit.Period.MONTH)

# Charges of one account are posted one after the other (its row is locked), so nothing of the period stands before its last
# charge of an earlier time: the sum reads the period's postings, not the account's whole life.
_SPENT = """
WITH mine AS (SELECT id FROM billing_account WHERE owner_id = %(party)s AND kind = 'customer' AND asset = %(asset)s)
SELECT coalesce(-sum(posting.amount), 0)::bigint FROM billing_posting posting
JOIN billing_transfer transfer ON transfer.id = posting.transfer_id
WHERE posting.account_id = (SELECT id FROM mine) AND transfer.kind = 'usage' AND transfer.effective_at >= %(since)s
    AND posting.id > coalesce((
        SELECT earlier.id FROM billing_posting earlier JOIN billing_transfer before ON before.id = earlier.transfer_id
        WHERE earlier.account_id = (SELECT id FROM mine) AND before.kind = 'usage' AND before.effective_at < %(since)s
        ORDER BY earlier.id DESC LIMIT 1
    ), 0)
"""


@dataclass(frozen=True, slots=True)
class Spending:
    """One period of one customer, in micro-USDC. ``limit`` None: there is none. ``set_aside_micro``: holds of running jobs."""

    period: SpendLimit.Period
    limit: SpendLimit | None
    since: datetime
    spent_micro: int
    set_aside_micro: int

    @property
    def limit_micro(self) -> int | None:
        return None if self.limit is None else self.limit.amount_micro

    @property
    def room_micro(self) -> int | None:
        """What further jobs may set aside; below zero after the limit was lowered; None without one."""
        limit = self.limit_micro
        return None if limit is None else limit - self.spent_micro - self.set_aside_micro


def period_since(period: str, now: datetime) -> datetime:
    """When the running period of a limit began: 24 hours ago, or on the first of the month, UTC."""
    if period == SpendLimit.Period.DAY:
        return now - DAY
    return now.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def spend_limits_of(parties: Collection[UUID]) -> dict[UUID, list[SpendLimit]]:
    """The limits that hold now, by party; who has none is missing."""
    rows = SpendLimit.objects.filter(party__in=parties).order_by("party", "period", "-created_at", "-id")
    found: dict[UUID, list[SpendLimit]] = {}
    for limit in rows.distinct("party", "period"):
        if limit.amount_micro is not None:
            found.setdefault(limit.party_id, []).append(limit)
    return found


def spendings_limited(parties: Collection[UUID], now: datetime) -> dict[UUID, list[Spending]]:
    """What was spent of every limit of these parties; what is set aside is left out (0). Who has no limit is missing."""
    return {
        party: [
            Spending(SpendLimit.Period(limit.period), limit, since, spent_micro(party, since), 0)
            for limit in limits
            for since in [period_since(limit.period, now)]
        ]
        for party, limits in spend_limits_of(parties).items()
    }


def spent_micro(party_id: UUID, since: datetime) -> int:
    """What usage was charged for from an instant on, by the time of posting."""
    with connection.cursor() as cursor:
        cursor.execute(_SPENT, {"party": party_id, "asset": USDC, "since": since})
        return int(cursor.fetchone()[0])


def set_aside_micro(party_id: UUID, prefix: str) -> int:
    """The open holds on a customer's balance whose source begins with ``prefix``."""
    mine = Hold.objects.filter(account__owner=party_id, account__kind=Account.Kind.CUSTOMER, state=Hold.State.OPEN)
    return int(mine.filter(source__startswith=prefix).aggregate(total=Sum("amount_micro"))["total"] or 0)


def spending_of(party: Party, now: datetime, *, holds: str) -> list[Spending]:
    """Both periods of one customer, with or without a limit. ``holds``: how the sources of jobs' holds begin."""
    limits = {limit.period: limit for limit in spend_limits_of([party.pk]).get(party.pk, [])}
    aside = set_aside_micro(party.pk, holds)
    return [
        Spending(
            period,
            limits.get(period),
            period_since(period, now),
            spent_micro(party.pk, period_since(period, now)),
            aside,
        )
        for period in PERIODS
    ]


def balances_of(parties: Iterable[UUID]) -> dict[UUID, int]:
    """The customers' balances, holds included, by party; who never paid in is missing."""
    rows = Account.objects.filter(owner__in=list(parties), kind=Account.Kind.CUSTOMER, asset=USDC)
    return {owner: balance for owner, balance in rows.values_list("owner", "balance") if owner is not None}

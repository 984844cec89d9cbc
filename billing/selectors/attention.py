"""What of the money waits for staff."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connection
from django.db.models import Count, Sum

from billing.models import Deposit, DepositClaim, Payout
from billing.selectors.payouts import payouts_frozen


@dataclass(frozen=True, slots=True)
class Waiting:
    """So many things, worth so much (micro-USDC)."""

    number: int = 0
    amount_micro: int = 0


@dataclass(frozen=True, slots=True)
class MoneyWaiting:
    """``release``: reserved payouts that need a second person; ``stuck``: blocked or of unknown fate; ``suspense``:
    deposits that belong to nobody yet; ``claims``: on them, by evidence, for two people to decide; ``frozen``: why payouts
    are stopped, empty while they run; ``adjustments``: proposed by one person, waiting for another.

    ``bank_suspense``: booked entries that fit nothing; ``bank_second``: files, rates and decisions that wait for a second
    person; ``bank_rate``: runs whose bank payouts wait for a euro rate or a day on which banks are open."""

    release: Waiting
    stuck: Waiting
    suspense: Waiting
    frozen: str
    bank_suspense: int = 0
    bank_second: int = 0
    bank_rate: int = 0
    claims: int = 0
    adjustments: int = 0


def money_waiting() -> MoneyWaiting:
    status = Payout.Status
    watched = Payout.objects.filter(status__in=(status.AWAITING_RELEASE, status.BLOCKED, status.UNKNOWN))
    rows = watched.order_by().values("status").annotate(number=Count("pk"), total=Sum("amount_micro"))
    payouts = {row["status"]: Waiting(row["number"], row["total"]) for row in rows}
    blocked, unknown = payouts.get(status.BLOCKED, Waiting()), payouts.get(status.UNKNOWN, Waiting())
    held = Deposit.objects.filter(state=Deposit.State.SUSPENSE).aggregate(number=Count("pk"), total=Sum("amount_micro"))
    switch = payouts_frozen()
    bank_suspense, bank_second, bank_rate, adjustments = _two_people()
    return MoneyWaiting(
        release=payouts.get(status.AWAITING_RELEASE, Waiting()),
        stuck=Waiting(blocked.number + unknown.number, blocked.amount_micro + unknown.amount_micro),
        suspense=Waiting(held["number"], held["total"] or 0),
        frozen=switch.reason if switch else "",
        bank_suspense=bank_suspense,
        bank_second=bank_second,
        bank_rate=bank_rate,
        claims=DepositClaim.objects.filter(kind="evidence", state="open").count(),
        adjustments=adjustments,
    )


_TWO_PEOPLE = """
SELECT (SELECT count(*) FROM billing_bankentry WHERE state = 'suspense'),
    (SELECT count(*) FROM billing_bankdecision WHERE confirmed_at IS NULL)
    + (SELECT count(*) FROM billing_bankfile f WHERE approved_at IS NULL
       AND EXISTS (SELECT 1 FROM billing_bankline WHERE file_id = f.id AND state = 'written'))
    + (SELECT count(*) FROM (SELECT confirmed_at FROM billing_eurrate ORDER BY created_at DESC LIMIT 1) newest
       WHERE confirmed_at IS NULL),
    (SELECT count(*) FROM billing_payoutrun WHERE planned_at IS NOT NULL AND bank_planned_at IS NULL),
    (SELECT count(*) FROM billing_adjustment WHERE state = 'proposed')
"""


def _two_people() -> tuple[int, int, int, int]:
    """(entries in suspense, what waits for a second person, runs without a rate, adjustments to confirm), in one look.

    A rate counts only when it is the newest: an older one that nobody confirmed is history.
    """
    with connection.cursor() as cursor:
        cursor.execute(_TWO_PEOPLE)
        suspense, second, rate, adjustments = cursor.fetchone()
    return suspense, second, rate, adjustments

"""What of the money waits for staff."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count, Sum

from billing.models import BankDecision, BankEntry, BankFile, Deposit, EurRate, Payout, PayoutRun
from billing.selectors.payouts import payouts_frozen


@dataclass(frozen=True, slots=True)
class Waiting:
    """So many things, worth so much (micro-USDC)."""

    number: int = 0
    amount_micro: int = 0


@dataclass(frozen=True, slots=True)
class MoneyWaiting:
    """``release``: reserved payouts that need a second person; ``stuck``: blocked or of unknown fate; ``suspense``:
    deposits that belong to nobody yet; ``frozen``: why payouts are stopped, empty while they run.

    ``bank_suspense``: booked entries that fit nothing; ``bank_second``: files, rates and decisions that wait for a second
    person; ``bank_rate``: runs whose bank payouts wait for a euro rate or a day on which banks are open."""

    release: Waiting
    stuck: Waiting
    suspense: Waiting
    frozen: str
    bank_suspense: int = 0
    bank_second: int = 0
    bank_rate: int = 0


def money_waiting() -> MoneyWaiting:
    status = Payout.Status
    watched = Payout.objects.filter(status__in=(status.AWAITING_RELEASE, status.BLOCKED, status.UNKNOWN))
    rows = watched.order_by().values("status").annotate(number=Count("pk"), total=Sum("amount_micro"))
    payouts = {row["status"]: Waiting(row["number"], row["total"]) for row in rows}
    blocked, unknown = payouts.get(status.BLOCKED, Waiting()), payouts.get(status.UNKNOWN, Waiting())
    held = Deposit.objects.filter(state=Deposit.State.SUSPENSE).aggregate(number=Count("pk"), total=Sum("amount_micro"))
    switch = payouts_frozen()
    return MoneyWaiting(
        release=payouts.get(status.AWAITING_RELEASE, Waiting()),
        stuck=Waiting(blocked.number + unknown.number, blocked.amount_micro + unknown.amount_micro),
        suspense=Waiting(held["number"], held["total"] or 0),
        frozen=switch.reason if switch else "",
        bank_suspense=BankEntry.objects.filter(state=BankEntry.State.SUSPENSE).count(),
        bank_second=_second_person(),
        bank_rate=PayoutRun.objects.filter(planned_at__isnull=False, bank_planned_at__isnull=True).count(),
    )


def _second_person() -> int:
    """Rates count only when they are the newest: an older one that nobody confirmed is history."""
    newest = EurRate.objects.order_by("-created_at").first()
    rates = int(newest is not None and newest.confirmed_at is None)
    files = BankFile.objects.filter(approved_at__isnull=True, lines__state="written").distinct().count()
    return files + rates + BankDecision.objects.filter(confirmed_at__isnull=True).count()

"""Planning a run: who is paid for a period, how much, where; each payout reserves its money as it is made."""

from __future__ import annotations

from datetime import date, datetime

import structlog
from django.conf import settings
from django.db import transaction

from accounts.models import Party
from billing.models import Account, Cycle, Payout, PayoutCycle, PayoutRun, Transfer
from billing.periods import Period, next_period_start, period_due
from billing.selectors.integrity import drift_first
from billing.selectors.payouts import cycle_of, destination_of, minimum_micro, payable_before
from billing.services.ledger.accounts import account_open
from billing.services.ledger.transfers import transfer_post
from billing.services.payouts.runs import run_pause
from billing.states import PAYOUT_RUN
from core import jobs
from core.errors import Invalid
from core.ids import uuid7
from core.locks import lock_rows

log = structlog.get_logger(__name__)


def payouts_run(*, as_of: date, now: datetime) -> list[PayoutRun]:
    """Plan every run that is due on ``as_of`` (weekly: the last Monday; monthly: the last first business day).

    A period is planned once, however often this is called; a run that a crash left behind is planned to its end. Nothing
    is signed here: the money worker looks at the wallet first (``payout_run_start``).
    Raises Invalid (field as_of) for a day to come, outside of demo mode.
    """
    if as_of > now.date() and not settings.DEMO:
        raise Invalid.field("as_of", found=as_of.isoformat(), allowed=f"no day after {now.date().isoformat()}")
    runs = [_run(period_due(kind, as_of), now) for kind in Cycle.values]
    for run in PayoutRun.objects.filter(planned_at__isnull=True, period_end__lte=as_of).order_by("period_start"):
        # Of a period that is over and was never planned to its end (wrong books for a week): nobody else looks at it.
        if run.pk not in {each.pk for each in runs}:
            _run(Period(run.kind, run.period_start, run.period_end, run.period_end), now)
    return runs


def payout_cycle_set(*, party: Party, kind: str, now: datetime) -> PayoutCycle:
    """Pay a party weekly or monthly from its next period on. Raises Invalid (field kind)."""
    if kind not in Cycle.values:
        raise Invalid.field("kind", found=kind, allowed=", ".join(Cycle.values))
    present = cycle_of(party, now.date())
    row, _ = PayoutCycle.objects.update_or_create(
        party=party, valid_from=next_period_start(present, now.date()), defaults={"kind": kind}
    )
    return row


def _run(period: Period, now: datetime) -> PayoutRun:
    # A twin that opens it at the same moment gets the same row: UNIQUE(kind, period_start).
    run, _ = PayoutRun.objects.get_or_create(
        kind=period.kind, period_start=period.start, defaults={"period_end": period.end, "created_at": now}
    )
    if run.planned_at is not None:
        return run
    drift = drift_first()
    if drift is not None:
        run_pause(run, reason=f"the books are wrong: {drift}", now=now)
        return run
    for party in _candidates(period):
        _reserve(run, period, party, now)
    with transaction.atomic():
        (run,) = lock_rows(PayoutRun.objects.all(), [run.pk])
        if run.planned_at is None:
            changes = {"planned_at": now, "pause_reason": ""}
            PAYOUT_RUN.move(run, to=PayoutRun.Status.PLANNED, at=now, changes=changes)
            jobs.enqueue("billing.payout_run_start", run_id=str(run.pk))
    return run


def _candidates(period: Period) -> list[Party]:
    earned = Account.objects.filter(
        kind=Account.Kind.PROVIDER_PAYABLE, balance__gt=0, owner__status=Party.Status.ACTIVE
    )
    parties = Party.objects.filter(pk__in=earned.values("owner")).order_by("pk")
    # By the period's last day: whoever goes from weekly to monthly in its middle is paid by the month that they are in now.
    return [party for party in parties if cycle_of(party, period.last_day) == period.kind]


def _reserve(run: PayoutRun, period: Period, party: Party, now: datetime) -> Payout | None:
    """Make the party's payout of this run and take its money in flight, in one transaction; None if it is not yet due."""
    payable = account_open(kind=Account.Kind.PROVIDER_PAYABLE, owner=party)
    in_flight = account_open(kind=Account.Kind.PAYOUT_IN_FLIGHT, owner=party)
    with transaction.atomic():
        # The account's row first: a twin of this run waits here and then finds the payout made.
        rows = {row.pk: row for row in lock_rows(Account.objects.all(), [payable.pk, in_flight.pk])}
        destination = destination_of(party)
        if destination is None or destination.usable_from > now:
            return None
        amount = payable_before(rows[payable.pk], period.ends_at)
        if amount < max(1, minimum_micro(period.kind, now)):
            return None
        if Payout.objects.filter(run=run, party=party).exists():
            return None
        key = uuid7()
        reserve = transfer_post(
            source=f"payout:{key}:reserve",
            kind=Transfer.Kind.PAYOUT_RESERVED,
            legs=[(payable.pk, -amount), (in_flight.pk, amount)],
            effective_at=now,
            now=now,
            floored=frozenset({payable.pk}),
        )
        return Payout.objects.create(
            id=key,
            run=run,
            party=party,
            amount_micro=amount,
            rail=destination.rail,
            destination=destination,
            address=destination.address,
            next_look_at=now,
            reserve_transfer=reserve,
            created_at=now,
        )

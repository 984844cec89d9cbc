"""Planning a run: who is paid for a period, how much, where; each payout reserves its money as it is made.

A run has two parts. Wallets are planned on the pay day. Bank accounts are planned on the first day from then on that the rail
moves money, once a euro rate is confirmed; until then the run stays open for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import Q

from accounts.models import Party
from billing.euros import cents_for, micro_for
from billing.models import Account, Cycle, Destination, EurRate, Payout, PayoutCycle, PayoutRun, Purpose, Rail, Transfer
from billing.periods import Period, next_period_start, period_due
from billing.rails import RAILS
from billing.selectors.freezes import freeze_of, hold_of
from billing.selectors.integrity import drift_first
from billing.selectors.payouts import (
    cycle_of,
    cycles_of,
    destination_of,
    minimum_micro,
    payable_before,
    payout_most_micro,
)
from billing.selectors.rates import eur_rate_usable
from billing.services.audit import audit_record
from billing.services.ledger.accounts import account_open
from billing.services.ledger.transfers import transfer_post
from billing.services.payouts.runs import run_pause
from billing.states import PAYOUT_RUN
from core import jobs
from core.errors import Invalid
from core.ids import uuid7
from core.locks import lock_rows

log = structlog.get_logger(__name__)

PAGE = 500
"""Payees that are looked up together."""


def payouts_run(*, as_of: date, now: datetime, actor: object | None = None) -> list[PayoutRun]:
    """Plan every run that is due on ``as_of`` (weekly: the last Monday; monthly: the last first business day).

    A period is planned once, however often this is called; a run that a crash left behind is planned to its end. Nothing
    is signed here: the money worker looks at the wallet first (``payout_run_start``).
    Raises Invalid (field as_of) for a day to come, outside of demo mode.
    """
    if as_of > now.date() and not settings.DEMO:
        raise Invalid.field("as_of", found=as_of.isoformat(), allowed=f"no day after {now.date().isoformat()}")
    due = [period_due(kind, as_of) for kind in Cycle.values]
    unplanned = Q(planned_at__isnull=True) | Q(bank_planned_at__isnull=True)
    for run in PayoutRun.objects.filter(unplanned, period_end__lte=as_of).order_by("period_start"):
        # Of a period that is over and was never planned to its end (wrong books or no rate for a week): nobody else looks.
        # The older one first: it reserves what had matured by its own end.
        if (run.kind, run.period_start) not in {(period.kind, period.start) for period in due}:
            _run(Period(run.kind, run.period_start, run.period_end, run.period_end), as_of, now)
    runs = [_run(period, as_of, now) for period in due]
    for run in runs:
        with transaction.atomic():
            after = {"run": str(run), "status": run.status, "payouts": run.payouts.count()}
            audit_record(verb="payouts_run", subject=run, actor=actor, before={}, after=after, now=now)
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


def _run(period: Period, as_of: date, now: datetime) -> PayoutRun:
    # A twin that opens it at the same moment gets the same row: UNIQUE(kind, period_start).
    run, _ = PayoutRun.objects.get_or_create(
        kind=period.kind, period_start=period.start, defaults={"period_end": period.end, "created_at": now}
    )
    if run.planned_at is not None and run.bank_planned_at is not None:
        return run
    drift = drift_first()
    if drift is not None:
        if run.planned_at is None:
            run_pause(run, reason=f"the books are wrong: {drift}", now=now)
        return run
    if run.planned_at is None:
        _plan_wallets(run, period, now)
    if run.bank_planned_at is None:
        _plan_banks(run, period, as_of, now)
    return PayoutRun.objects.get(pk=run.pk)


def _plan_wallets(run: PayoutRun, period: Period, now: datetime) -> None:
    for party in _candidates(period, Rail.USDC):
        _reserve(run, period, party, now)
    with transaction.atomic():
        (run,) = lock_rows(PayoutRun.objects.all(), [run.pk])
        if run.planned_at is None:
            changes = {"planned_at": now, "pause_reason": ""}
            PAYOUT_RUN.move(run, to=PayoutRun.Status.PLANNED, at=now, changes=changes)
            jobs.enqueue("billing.payout_run_start", run_id=str(run.pk))


def _plan_banks(run: PayoutRun, period: Period, as_of: date, now: datetime) -> None:
    """Those whose rail works today, at the confirmed rate; the run stays open while somebody has to wait."""
    rate, waits = eur_rate_usable(now), False
    for party in _candidates(period, Rail.BANK):
        destination = destination_of(party)
        if destination is None or destination.rail != Rail.BANK:
            continue
        if rate is None or RAILS[destination.scheme].business_day(period.pay_day) > as_of:
            waits = True
        else:
            _reserve(run, period, party, now, rate=rate)
    if not waits:
        PayoutRun.objects.filter(pk=run.pk, bank_planned_at__isnull=True).update(bank_planned_at=now)
        jobs.enqueue("billing.payout_run_start", run_id=str(run.pk))


def _candidates(period: Period, rail: str) -> Iterator[Party]:
    """Whoever may have to be paid by this rail, a page at a time: a run of any length takes the same memory."""
    earned = Account.objects.filter(
        kind=Account.Kind.PROVIDER_PAYABLE, balance__gt=0, owner__status=Party.Status.ACTIVE
    )
    there = Destination.objects.filter(purpose=Purpose.PAYOUT, state=Destination.State.ACTIVE, rail=rail)
    parties = Party.objects.filter(pk__in=earned.values("owner")).filter(pk__in=there.values("party")).order_by("pk")
    page = list(parties[:PAGE])
    while page:
        # By the period's last day: whoever goes from weekly to monthly in its middle is paid by the month that they are in now.
        kinds = cycles_of(page, period.last_day)
        yield from (party for party in page if kinds[party.pk] == period.kind)
        page = list(parties.filter(pk__gt=page[-1].pk)[:PAGE])


def _reserve(
    run: PayoutRun, period: Period, party: Party, now: datetime, *, rate: EurRate | None = None
) -> Payout | None:
    """Make the party's payout of this run and take its money in flight, in one transaction; None if it is not yet due.

    What is more than one payout may be stays payable, for the next run.
    With a rate it is one to a bank account: as many whole cents as the payable amount buys, and what exactly these take.
    """
    rail = Rail.USDC if rate is None else Rail.BANK
    payable = account_open(kind=Account.Kind.PROVIDER_PAYABLE, owner=party)
    in_flight = account_open(kind=Account.Kind.PAYOUT_IN_FLIGHT, owner=party)
    with transaction.atomic():
        # The account's row first: a twin of this run waits here and then finds the payout made.
        rows = {row.pk: row for row in lock_rows(Account.objects.all(), [payable.pk, in_flight.pk])}
        destination = destination_of(party)
        if destination is None or destination.rail != rail or destination.usable_from > now:
            return None
        if freeze_of(party) is not None or hold_of(party) is not None:
            return None
        amount = min(payable_before(rows[payable.pk], period.ends_at), payout_most_micro(now, rail=rail))
        if amount < max(1, minimum_micro(period.kind, now, rail=rail)):
            return None
        cents = None
        if rate is not None:
            terms = {"reference_micro": rate.reference_micro, "margin_bps": rate.margin_bps}
            cents = cents_for(amount, **terms)
            amount = micro_for(cents, **terms)
            if cents < 1:
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
            amount_cents=cents,
            currency="" if cents is None else RAILS[destination.scheme].currency,
            eur_rate=rate,
            rail=destination.rail,
            destination=destination,
            address=destination.address,
            next_look_at=now,
            reserve_transfer=reserve,
            created_at=now,
        )

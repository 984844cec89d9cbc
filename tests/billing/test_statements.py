"""Statements of payouts, told with numbers: their lines add up to the transfer, whatever happened before it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from uuid import UUID

import pytest
from django.db import connection, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accounts.models import Party
from billing.models import Account, Document, EarningLine, Payout, Posting, Transfer
from billing.selectors import earnings_by_day, earnings_of, payable_of
from billing.selectors.documents import facts_of
from billing.selectors.statements import Line, payout_lines
from billing.services import (
    earnings_mature,
    payout_cancel,
    payout_cycle_set,
    payout_statement_issue,
    service_credit_post,
)
from core.errors import Conflict
from core.ids import uuid7
from tests.factories.billing import USDC, earned
from tests.factories.documents import destination_for, reserved, rules, settled

pytestmark = pytest.mark.django_db

MONDAY = datetime(2026, 11, 9, tzinfo=UTC)
DAY, WEEK, HOUR, MINUTE = timedelta(days=1), timedelta(days=7), timedelta(hours=1), timedelta(minutes=1)
JUNE = datetime(2026, 6, 1, tzinfo=UTC)
ONE, TWO = uuid7(), uuid7()
H100, A100 = [(ONE, "H100")], [(TWO, "A100")]


@pytest.fixture
def paid_weekly(provider: Party) -> Party:
    rules(JUNE)
    destination_for(provider, usable_from=JUNE)
    return provider


def paid(provider: Party, on: datetime) -> Payout:
    """Matured, reserved and settled on this day."""
    earnings_mature(now=on - MINUTE)
    payout = reserved(provider, on=on + timedelta(minutes=5))
    assert payout is not None
    return settled(payout, at=on + timedelta(minutes=6))


def stated(payout: Payout) -> list[Line]:
    document = payout_statement_issue(payout=payout, now=payout.settled_at or MONDAY)
    assert document.total_micro == payout.amount_micro
    lines: list[Line] = facts_of(document)["lines"]
    assert sum(line["amount_micro"] for line in lines) == payout.amount_micro
    return lines


def told(lines: list[Line]) -> list[tuple[object, ...]]:
    """Kind and figures of each line: gross and fee where there are some, and the amount."""
    names = ("kind", "gross_micro", "fee_micro", "amount_micro")
    return [tuple(line[name] for name in names if name in line) for line in lines]


def test_a_week_on_two_gpus(paid_weekly: Party, customer: Party) -> None:
    """An H100 earns 24.9 and 2.49 gross, an A100 7.095, the fee is 10 %: 24.651 + 6.3855 = 31.0365 USDC."""
    week = MONDAY - WEEK
    earned(paid_weekly, customer, 24_900_000, gpus=H100, at=week + DAY)
    earned(paid_weekly, customer, 7_095_000, gpus=A100, at=week + 2 * DAY)
    earned(paid_weekly, customer, 2_490_000, gpus=H100, at=week + 3 * DAY)
    payout = paid(paid_weekly, MONDAY)
    assert payout.amount_micro == 31_036_500
    assert told(stated(payout)) == [
        ("earnings", 24_900_000, 2_490_000, 22_410_000),
        ("earnings", 7_095_000, 709_500, 6_385_500),
        ("earnings", 2_490_000, 249_000, 2_241_000),
    ]


def test_the_quarters_of_a_rental_are_one_line_per_gpu_and_fees_are_split_to_the_micro(
    paid_weekly: Party, customer: Party
) -> None:
    """0.000101 over two GPUs: 0.000091 for the provider (46 + 45), 0.000010 fee (5 + 5)."""
    earned(paid_weekly, customer, 101, gpus=[(ONE, "H100"), (TWO, "H100")], at=MONDAY - DAY)
    lines = stated(paid(paid_weekly, MONDAY))
    assert len({line["rental"] for line in lines}) == 1
    assert sorted(told(lines)) == [("earnings", 50, 5, 45), ("earnings", 51, 5, 46)]


def test_what_matures_after_the_period_is_carried_to_the_next_statement(paid_weekly: Party, customer: Party) -> None:
    """It became payable on Monday at 00:03, before the run looked: stated now, paid next week, and not stated again."""
    earned(paid_weekly, customer, 10 * USDC, fee_bps=0, at=MONDAY - DAY)
    earnings_mature(now=MONDAY - HOUR)
    earned(paid_weekly, customer, 3 * USDC, fee_bps=0, at=MONDAY + timedelta(minutes=2))
    first = paid(paid_weekly, MONDAY + timedelta(minutes=3))
    assert told(stated(first)) == [
        ("earnings", 10 * USDC, 0, 10 * USDC),
        ("earnings", 3 * USDC, 0, 3 * USDC),
        ("carried_forward", -3 * USDC),
    ]
    earned(paid_weekly, customer, 4 * USDC, fee_bps=0, at=MONDAY + DAY)
    assert told(stated(paid(paid_weekly, MONDAY + WEEK))) == [
        ("brought_forward", 3 * USDC),
        ("earnings", 4 * USDC, 0, 4 * USDC),
    ]


def test_a_service_credit_after_the_payout_is_taken_from_the_next_one(paid_weekly: Party, customer: Party) -> None:
    """9 USDC were paid; then the customer gets 5 of 10 back: 4.5 from the provider, 0.5 from the fee. 18 − 4.5 = 13.5."""
    charge = earned(paid_weekly, customer, 10 * USDC, gpus=H100, at=MONDAY - DAY)
    assert told(stated(paid(paid_weekly, MONDAY))) == [("earnings", 10 * USDC, USDC, 9 * USDC)]
    service_credit_post(source="credit:1", of_sources=[charge.source], amount_micro=5 * USDC, now=MONDAY + DAY)
    assert payable_of(paid_weekly) == -4_500_000
    earned(paid_weekly, customer, 20 * USDC, gpus=A100, at=MONDAY + 2 * DAY)
    payout = paid(paid_weekly, MONDAY + WEEK)
    assert payout.amount_micro == 13_500_000
    lines = stated(payout)
    assert told(lines) == [
        ("service_credit", -5 * USDC, -500_000, -4_500_000),
        ("earnings", 20 * USDC, 2 * USDC, 18 * USDC),
    ]
    assert (lines[0]["model"], lines[0]["gpu"]) == ("H100", str(ONE))


def test_a_charge_that_is_given_back_while_pending_is_stated_with_what_undid_it(
    paid_weekly: Party, customer: Party
) -> None:
    """Both mature together and add up to 0, so no money moves; the statement shows them all the same, once."""
    charge = earned(paid_weekly, customer, 10 * USDC, at=MONDAY - DAY)
    service_credit_post(source="credit:1", of_sources=[charge.source], amount_micro=10 * USDC, now=MONDAY - DAY + HOUR)
    earnings_mature(now=MONDAY - HOUR)
    assert EarningLine.objects.filter(matured_at__isnull=False, matured_by__isnull=True).count() == 2
    earned(paid_weekly, customer, 2 * USDC, fee_bps=0, at=MONDAY - timedelta(minutes=9))
    first = told(stated(paid(paid_weekly, MONDAY)))
    assert first[:2] == [("earnings", 10 * USDC, USDC, 9 * USDC), ("service_credit", -10 * USDC, -USDC, -9 * USDC)]
    earned(paid_weekly, customer, USDC, fee_bps=0, at=MONDAY + DAY)
    assert ("service_credit", -10 * USDC, -USDC, -9 * USDC) not in told(stated(paid(paid_weekly, MONDAY + WEEK)))


def test_a_cancelled_payout_comes_back_in_the_next_statement(paid_weekly: Party, customer: Party) -> None:
    earned(paid_weekly, customer, 10 * USDC, at=MONDAY - DAY)
    earnings_mature(now=MONDAY - HOUR)
    payout = reserved(paid_weekly, on=MONDAY)
    assert payout is not None
    payout_cancel(payout=payout, reason="test", now=MONDAY + DAY)
    with pytest.raises(Conflict, match="not settled"):
        payout_statement_issue(payout=payout, now=MONDAY + DAY)
    assert not Document.objects.exists()
    lines = stated(paid(paid_weekly, MONDAY + WEEK))
    assert told(lines) == [("payout_cancelled", 9 * USDC)]


def test_a_payout_has_one_statement_and_names_are_those_of_its_day(paid_weekly: Party, customer: Party) -> None:
    earned(paid_weekly, customer, 10 * USDC, gpus=H100, at=MONDAY - DAY)
    payout = paid(paid_weekly, MONDAY)
    first = payout_statement_issue(
        payout=payout,
        now=MONDAY + DAY,
        gpu_names=lambda ids: dict.fromkeys(ids, "rack-4 · GPU 0"),
        addressee="王喆 GmbH",
    )
    again = payout_statement_issue(
        payout=payout, now=MONDAY + 2 * DAY, gpu_names=lambda ids: dict.fromkeys(ids, "renamed"), addressee="else"
    )
    assert first.pk == again.pk and first.label == "P-2026-000001"
    facts = facts_of(again)
    assert (facts["lines"][0]["name"], facts["addressee"]["name"]) == ("rack-4 · GPU 0", "王喆 GmbH")
    assert (facts["signature"], facts["address"]) == (payout.attempts.get().signature, payout.address)


def test_a_week_with_a_change_of_clocks_has_168_hours(paid_weekly: Party, customer: Party) -> None:
    """Berlin goes back on Sunday 25 October 2026 at 01:00 UTC. A GPU that earns 0.01 an hour all week earns 1.68: the hour
    that Berlin has twice is two hours here, and the week ends at Monday 00:00 UTC, which is Monday 01:00 there."""
    monday = datetime(2026, 10, 19, tzinfo=UTC)
    for hour in range(7 * 24 + 1):
        earned(paid_weekly, customer, 10_000, fee_bps=0, gpus=H100, at=monday + hour * HOUR)
    found = earnings_of(paid_weekly, monday, monday + WEEK)
    assert found.total_micro == 1_680_000
    assert [amount for _day, amount in earnings_by_day(paid_weekly, monday, monday + WEEK)] == [240_000] * 7
    earnings_mature(now=monday + WEEK - HOUR)
    payout = reserved(paid_weekly, on=monday + WEEK)
    assert payout is not None and payout.amount_micro == 1_680_000
    assert (payout.run.period_start, payout.run.period_end) == (date(2026, 10, 19), date(2026, 10, 26))


def test_a_month_that_begins_on_a_saturday(paid_weekly: Party, customer: Party) -> None:
    """1 August 2026 is a Saturday: July is paid on Monday the 3rd, and what was earned on the 1st and 2nd waits for it."""
    payout_cycle_set(party=paid_weekly, kind="monthly", now=JUNE)
    for day, amount in ((date(2026, 7, 31), 5 * USDC), (date(2026, 8, 1), 2 * USDC), (date(2026, 8, 2), 3 * USDC)):
        at = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
        earned(paid_weekly, customer, amount, fee_bps=0, at=at)
        earnings_mature(now=at + HOUR)
    for early in (1, 2):
        assert reserved(paid_weekly, on=datetime(2026, 8, early, 9, tzinfo=UTC)) is None
    payout = reserved(paid_weekly, on=datetime(2026, 8, 3, 0, 10, tzinfo=UTC))
    assert payout is not None and payout.run.kind == "monthly" and payout.amount_micro == 5 * USDC
    assert told(stated(settled(payout, at=datetime(2026, 8, 3, 1, tzinfo=UTC))))[-1] == ("carried_forward", -5 * USDC)


# Random histories

STEPS = st.one_of(
    st.tuples(
        st.just("earn"), st.integers(1, 10_000_000), st.integers(1, 3), st.sampled_from([0, 1, 1_000, 3_333, 10_000])
    ),
    st.tuples(st.just("mature"), st.just(0), st.just(0), st.just(0)),
    st.tuples(st.just("credit"), st.integers(0, 5), st.integers(1, 100), st.just(0)),
    st.tuples(st.just("pay"), st.just(0), st.just(0), st.just(0)),
    st.tuples(st.just("cancel"), st.just(0), st.just(0), st.just(0)),
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(STEPS, st.integers(1, 60)), min_size=3, max_size=25))
def test_any_history_adds_up(
    paid_weekly: Party, customer: Party, steps: list[tuple[tuple[str, int, int, int], int]]
) -> None:
    with transaction.atomic():
        _History(paid_weekly, customer).run(steps)
        connection.check_constraints()
        transaction.set_rollback(True)


class _History:
    def __init__(self, provider: Party, customer: Party) -> None:
        rules(MONDAY - 2 * DAY, maturing_seconds=24 * 3600)
        self.provider, self.customer, self.now = provider, customer, MONDAY
        self.cards: list[tuple[UUID, str]] = [(uuid7(), "H100"), (uuid7(), "A100"), (uuid7(), "L4")]
        self.charges: list[Transfer] = []
        self.credited: set[str] = set()
        self.payouts: list[Payout] = []

    def run(self, steps: list[tuple[tuple[str, int, int, int], int]]) -> None:
        for (verb, first, second, third), hours in [*steps, (("pay", 0, 0, 0), 24 * 9)]:
            self.now += timedelta(hours=hours)
            getattr(self, verb)(first, second, third)
        for payout in self.payouts:
            if payout.status == Payout.Status.SETTLED:
                stated(payout)
        self.check_nothing_is_stated_twice()

    def earn(self, amount: int, gpus: int, fee_bps: int) -> None:
        charge = earned(self.provider, self.customer, amount, gpus=self.cards[:gpus], fee_bps=fee_bps, at=self.now)
        self.charges.append(charge)

    def mature(self, *_: int) -> None:
        earnings_mature(now=self.now)

    def credit(self, which: int, percent: int, _: int) -> None:
        left = [charge for charge in self.charges if charge.source not in self.credited]
        if not left:
            return
        charge = left[which % len(left)]
        whole = -Posting.objects.get(transfer=charge, account__kind=Account.Kind.CUSTOMER).amount
        amount = max(1, whole * percent // 100)
        service_credit_post(source=f"credit:{charge.pk}", of_sources=[charge.source], amount_micro=amount, now=self.now)
        self.credited.add(charge.source)

    def pay(self, *_: int) -> None:
        self._reserve(settle=True)

    def cancel(self, *_: int) -> None:
        self._reserve(settle=False)

    def _reserve(self, *, settle: bool) -> None:
        earnings_mature(now=self.now)
        payout = reserved(self.provider, on=self.now)
        if payout is None:
            return
        if settle:
            settled(payout, at=self.now)
        else:
            payout_cancel(payout=payout, reason="test", now=self.now)
            payout.refresh_from_db()
        self.payouts.append(payout)

    def check_nothing_is_stated_twice(self) -> None:
        """Every line between two reserves is in exactly one statement: over all of them, each GPU's lines are its lines."""
        statements = [payout_lines(payout) for payout in self.payouts]
        if not statements:
            return
        for earlier, later in pairwise(statements):
            assert later.brought_micro == earlier.carried_micro
        last = statements[-1].until
        for gpu, _model in self.cards:
            said = sum(
                line["amount_micro"] for found in statements for line in found.lines if line.get("gpu") == str(gpu)
            )
            lines = EarningLine.objects.filter(gpu_id=gpu, matured_at__isnull=False, matured_at__lt=last)
            same_instant = EarningLine.objects.filter(gpu_id=gpu, matured_at=last)
            exact = sum(lines.values_list("amount_micro", flat=True))
            assert said in (exact, exact + sum(same_instant.values_list("amount_micro", flat=True)))
        fees = sum(line.get("fee_micro", 0) for found in statements for line in found.lines)
        gross = sum(line.get("gross_micro", 0) for found in statements for line in found.lines)
        assert gross - fees == sum(
            line["amount_micro"] for found in statements for line in found.lines if "gross_micro" in line
        )

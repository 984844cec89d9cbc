"""Money that goes back after it was paid on, and runs around midnight; every figure by hand. The fee is 10 %."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from accounts.models import Party
from billing.models import EarningLine, Payout, PayoutRun
from billing.selectors import balance_of, in_flight_of, payable_of, pending_of, why_not_yet
from billing.selectors.balances import house_balance
from billing.selectors.documents import facts_of
from billing.services import (
    earnings_freeze,
    earnings_mature,
    earnings_thaw,
    payout_statement_issue,
    payouts_run,
    usage_reverse,
)
from tests.factories.billing import USDC, earned, funded
from tests.factories.documents import destination_for, reserved, rules, settled

pytestmark = pytest.mark.django_db

MONDAY = datetime(2026, 12, 14, tzinfo=UTC)
DAY, WEEK, MINUTE = timedelta(days=1), timedelta(days=7), timedelta(minutes=1)


@pytest.fixture
def paid_weekly(provider: Party) -> Party:
    rules(MONDAY - 4 * WEEK)
    destination_for(provider, usable_from=MONDAY - 4 * WEEK)
    return provider


def paid(provider: Party, on: datetime) -> Payout:
    earnings_mature(now=on - MINUTE)
    payout = reserved(provider, on=on + 5 * MINUTE)
    assert payout is not None
    return settled(payout, at=on + 6 * MINUTE)


def test_a_refund_after_the_payout_is_a_debt_that_later_earnings_pay_back(paid_weekly: Party, customer: Party) -> None:
    """20 USDC are charged (18 + 2) and the 18 are paid on Monday. On Tuesday 15 of the 20 go back: 13.5 from the provider, who
    has nothing, 1.5 from the fee. The next week earns 9: a debt of 4.5, nothing is paid. The one after earns 36: 31.5 are."""
    funded(customer, 100 * USDC, now=MONDAY - WEEK)
    charge = earned(paid_weekly, customer, 20 * USDC, at=MONDAY - 2 * DAY)
    first = paid(paid_weekly, MONDAY)
    assert (first.amount_micro, payable_of(paid_weekly)) == (18 * USDC, 0)

    tuesday = MONDAY + DAY
    for _twice in range(2):
        usage_reverse(source="dispute:story", of_sources=[charge.source], amount_micro=15 * USDC, now=tuesday)
    assert (payable_of(paid_weekly), pending_of(paid_weekly)) == (-13_500_000, 0)
    assert balance_of(customer).balance_micro == 95 * USDC
    assert house_balance("platform_fee") == 500_000
    assert any("debt of 13.50" in sentence for sentence in why_not_yet(paid_weekly, tuesday))

    earned(paid_weekly, customer, 10 * USDC, at=MONDAY + 3 * DAY)
    earnings_mature(now=MONDAY + 4 * DAY)
    assert payable_of(paid_weekly) == -4_500_000
    assert reserved(paid_weekly, on=MONDAY + WEEK) is None
    assert in_flight_of(paid_weekly) == 0

    earned(paid_weekly, customer, 40 * USDC, at=MONDAY + WEEK + DAY)
    second = paid(paid_weekly, MONDAY + 2 * WEEK)
    assert (second.amount_micro, payable_of(paid_weekly)) == (31_500_000, 0)
    statement = payout_statement_issue(payout=second, now=second.settled_at or MONDAY)
    lines = [(line["kind"], line["amount_micro"]) for line in facts_of(statement)["lines"]]
    assert lines == [("dispute", -13_500_000), ("earnings", 9 * USDC), ("earnings", 36 * USDC)]
    (dispute,) = [line for line in facts_of(statement)["lines"] if line["kind"] == "dispute"]
    assert (dispute["gross_micro"], dispute["fee_micro"]) == (-15 * USDC, -1_500_000)


def test_what_is_frozen_is_not_paid_and_the_rest_is(paid_weekly: Party, customer: Party) -> None:
    """9 and 27 USDC are earned and mature; the 9 are disputed on Sunday. Monday pays 27; after the refusal the next one 9."""
    charge = earned(paid_weekly, customer, 10 * USDC, at=MONDAY - 3 * DAY)
    earned(paid_weekly, customer, 30 * USDC, at=MONDAY - 2 * DAY)
    earnings_mature(now=MONDAY - DAY)
    rental = EarningLine.objects.get(transfer=charge).rental_id
    for _twice in range(2):
        earnings_freeze(source="dispute:story", provider=paid_weekly, rental_id=rental, now=MONDAY - DAY)
    first = reserved(paid_weekly, on=MONDAY)
    assert first is not None and first.amount_micro == 27 * USDC
    settled(first, at=MONDAY + MINUTE)
    for _twice in range(2):
        earnings_thaw(source="dispute:story", now=MONDAY + DAY)
    second = reserved(paid_weekly, on=MONDAY + WEEK)
    assert second is not None and second.amount_micro == 9 * USDC


def test_of_what_was_paid_in_part_only_the_rest_is_frozen(paid_weekly: Party, customer: Party) -> None:
    """A rental earned 9 before Monday, which are paid, and 18 after it: only these are there to be frozen."""
    first = earned(paid_weekly, customer, 10 * USDC, at=MONDAY - DAY)
    paid(paid_weekly, MONDAY)
    earned(paid_weekly, customer, 20 * USDC, at=MONDAY + DAY)
    earnings_mature(now=MONDAY + 2 * DAY)
    rental = EarningLine.objects.get(transfer=first).rental_id
    earnings_freeze(source="dispute:story", provider=paid_weekly, rental_id=rental, now=MONDAY + 3 * DAY)
    # The 9 are gone; as much of the other rental's money is kept in their place.
    second = reserved(paid_weekly, on=MONDAY + WEEK)
    assert second is not None and second.amount_micro == 9 * USDC
    usage_reverse(source="dispute:story", of_sources=[first.source], amount_micro=10 * USDC, now=MONDAY + 8 * DAY)
    earnings_thaw(source="dispute:story", now=MONDAY + 8 * DAY)
    assert payable_of(paid_weekly) == 0


def test_a_run_at_half_past_eleven_and_again_at_half_past_midnight(paid_weekly: Party, customer: Party) -> None:
    """Sunday 23:30 still belongs to the week before; Monday 00:30 pays what matured until midnight, once.

    Sunday 12:00 earns 10, Sunday 23:45 earns 2, Monday 00:10 earns 3.
    """

    def run(at: datetime) -> list[int]:
        known = set(Payout.objects.values_list("pk", flat=True))
        payouts_run(as_of=at.date(), now=at)
        return [payout.amount_micro for payout in Payout.objects.exclude(pk__in=known)]

    sunday = MONDAY - DAY
    for at, amount in ((sunday + timedelta(hours=12), 10), (MONDAY - 15 * MINUTE, 2), (MONDAY + 10 * MINUTE, 3)):
        earned(paid_weekly, customer, amount * USDC, fee_bps=0, at=at)
        earnings_mature(now=at)
    assert run(MONDAY - 30 * MINUTE) == []
    assert run(MONDAY + 30 * MINUTE) == [12 * USDC]
    for late in (MONDAY + 31 * MINUTE, MONDAY + DAY - 30 * MINUTE, MONDAY + DAY + 30 * MINUTE):
        assert run(late) == []
    assert PayoutRun.objects.filter(kind="weekly", period_start=(MONDAY - WEEK).date()).count() == 1
    assert payable_of(paid_weekly) == 3 * USDC
    assert run(MONDAY + WEEK + 30 * MINUTE) == [3 * USDC]

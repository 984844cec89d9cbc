"""Two people confirm at once. The race is shown first without the guards, then that they hold."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

import pytest
from django.db import connections

from accounts.models import Party, User
from billing.models import Adjustment, Transfer
from billing.selectors import balance_of
from billing.services import account_open, adjustment_confirm, adjustment_propose, adjustment_refuse, transfer_post
from core.errors import Conflict
from tests.factories.billing import USDC
from tests.factories.cast import person
from tests.factories.concurrency import together

NOON = datetime(2026, 11, 10, 12, tzinfo=UTC)
FOUR = 4


@pytest.fixture
def wish(committed_db: str, customer: Party, olga: User) -> Adjustment:
    return adjustment_propose(
        party=customer, kind="customer", amount_micro=USDC, reason="x", evidence="y", actor=olga, now=NOON
    )


@pytest.fixture
def staff(committed_db: str) -> list[User]:
    return [person(f"Staff{number}", is_staff=True, permissions=True) for number in range(FOUR)]


def test_two_confirm_one_adjustment_the_race(wish: Adjustment, customer: Party) -> None:
    """The control: look whether it waits, then post. Both see it waiting, and the money is given twice."""
    legs = [(wish.account_id, USDC), (account_open(kind="adjustments").pk, -USDC)]
    both_have_looked = threading.Barrier(2)

    def confirm(number: int) -> str:
        state = Adjustment.objects.get(pk=wish.pk).state
        both_have_looked.wait(60)
        transfer_post(source=f"naive:{number}", kind="funding", legs=legs, effective_at=NOON, now=NOON)
        return state

    assert together(2, confirm) == ["proposed", "proposed"]
    assert balance_of(customer).balance_micro == 2 * USDC


def test_four_confirm_one_adjustment(wish: Adjustment, staff: list[User], customer: Party) -> None:
    found = together(FOUR, lambda n: adjustment_confirm(adjustment=wish, actor=staff[n], now=NOON))
    assert sum(isinstance(each, Adjustment) for each in found) == 1, found
    assert sum(isinstance(each, Conflict) for each in found) == FOUR - 1, found
    assert balance_of(customer).balance_micro == USDC and Transfer.objects.count() == 1


def test_the_same_person_clicks_four_times_at_once(wish: Adjustment, staff: list[User], customer: Party) -> None:
    found = together(FOUR, lambda n: adjustment_confirm(adjustment=wish, actor=staff[0], now=NOON))
    assert {each.transfer_id for each in found} == {Transfer.objects.get().pk}
    assert balance_of(customer).balance_micro == USDC


def test_a_yes_and_a_no_at_once_one_of_them_counts(wish: Adjustment, staff: list[User], customer: Party) -> None:
    def decide(number: int) -> Adjustment:
        if number:
            return adjustment_refuse(adjustment=wish, reason="no", actor=staff[1], now=NOON)
        return adjustment_confirm(adjustment=wish, actor=staff[0], now=NOON)

    found = together(2, decide)
    assert sum(isinstance(each, Conflict) for each in found) == 1, found
    wish.refresh_from_db()
    assert (wish.state, balance_of(customer).balance_micro) in (("posted", USDC), ("refused", 0))


def test_the_days_limit_holds_for_those_confirmed_at_once(
    staff: list[User], committed_db: str, customer: Party, olga: User
) -> None:
    """Six of 1,000 at once: five fit into 5,000."""
    wishes = [
        adjustment_propose(
            party=customer, kind="customer", amount_micro=1_000 * USDC, reason="x", evidence="y", actor=olga, now=NOON
        )
        for _ in range(6)
    ]
    found = together(6, lambda n: adjustment_confirm(adjustment=wishes[n], actor=staff[n % FOUR], now=NOON))
    assert sum(isinstance(each, Conflict) for each in found) == 1, found
    assert balance_of(customer).balance_micro == 5_000 * USDC
    with connections["default"].cursor() as cursor:
        cursor.execute("SELECT count(*) FROM billing_adjustment WHERE state = 'proposed'")
        assert cursor.fetchone() == (1,)

"""Many withdrawals at once, and a withdrawal beside a hold or a charge. The race is shown first without the guard."""

from __future__ import annotations

import threading

import pytest
from django.db import connection

from accounts.models import Party, User
from billing.models import Account, Payout
from billing.selectors import balance_of
from billing.selectors.balances import withdrawing_of
from billing.services import hold_place, transfer_post, withdrawal_cancel
from billing.services.payouts.screening import payee_obstacle
from core import clock
from core.errors import Conflict, DomainError, InsufficientFunds
from core.ids import uuid7
from tests.billing.chain.world import USDC
from tests.billing.test_races import TEN, at_once
from tests.billing.test_withdrawals import FEE
from tests.factories.billing import earned, funded
from tests.factories.withdrawals import withdrawal_wallet, withdrawing


@pytest.fixture
def ready(committed_db: str, customer: Party) -> Party:
    """10 USDC and a wallet."""
    withdrawal_wallet(customer)
    return funded(customer, 10 * USDC)


def granted(outcomes: list[bool]) -> int:
    return sum(outcomes)


def test_ten_withdrawals_of_the_last_cent_the_race(ready: Party) -> None:
    """The control: read, check, post without the floor grants all ten of them 6 of 10 USDC."""
    all_have_read = threading.Barrier(TEN)
    account = Account.objects.get(owner=ready, kind="customer")
    capital = Account.objects.create(kind="capital", live=False)

    def withdraw(number: int) -> bool:
        seen = Account.objects.get(pk=account.pk)
        enough = seen.balance - seen.held >= 6 * USDC
        all_have_read.wait(60)
        if enough:
            legs = [(account.pk, -6 * USDC), (capital.pk, 6 * USDC)]
            now = clock.now()
            transfer_post(source=f"x:{number}", kind="withdrawal_reserved", legs=legs, effective_at=now, now=now)
        return enough

    assert granted(at_once(withdraw)) == TEN
    assert balance_of(ready).balance_micro == -50 * USDC


def test_ten_withdrawals_of_the_last_cent(ready: Party) -> None:
    def withdraw(_: int) -> bool:
        try:
            withdrawing(ready, 6 * USDC)
        except InsufficientFunds:
            return False
        return True

    assert granted(at_once(withdraw)) == 1
    assert (balance_of(ready).balance_micro, withdrawing_of(ready)) == (4 * USDC, 6 * USDC - FEE)
    assert Payout.objects.count() == 1


def test_ten_times_the_same_request_is_one_withdrawal(ready: Party) -> None:
    key = uuid7()
    made = at_once(lambda _: withdrawing(ready, 10 * USDC, key=key).pk)
    assert len(set(made)) == 1
    assert balance_of(ready).balance_micro == 0


def test_ten_small_ones_at_once_are_three(ready: Party) -> None:
    """The bound on open withdrawals holds beside itself, too."""
    funded(ready, 40 * USDC)

    def withdraw(_: int) -> bool:
        try:
            withdrawing(ready, 5 * USDC)
        except Conflict:
            return False
        return True

    assert granted(at_once(withdraw)) == 3


def test_five_withdrawals_and_five_holds_for_the_same_money(ready: Party) -> None:
    """Whoever is first; never both."""

    def take(number: int) -> bool:
        try:
            if number % 2:
                withdrawing(ready, 6 * USDC)
            else:
                hold_place(party=ready, amount_micro=6 * USDC, source=f"job:{number}", now=clock.now())
        except InsufficientFunds:
            return False
        return True

    assert granted(at_once(take)) == 1
    assert balance_of(ready).available_micro == 4 * USDC


def test_withdrawals_beside_charges_lose_no_money(ready: Party, provider: Party) -> None:
    """A charge is never refused, a withdrawal sees it or not: what is reserved is then held up by the debt."""

    def move(number: int) -> bool:
        try:
            if number % 2:
                withdrawing(ready, 6 * USDC)
            else:
                earned(provider, ready, 2 * USDC)
        except InsufficientFunds:
            return False
        return True

    charged_and_reserved = granted(at_once(move))
    reserved = Payout.objects.count()
    assert charged_and_reserved - reserved == 5 and reserved <= 1
    assert balance_of(ready).balance_micro == 10 * USDC - 5 * 2 * USDC - reserved * 6 * USDC
    for payout in Payout.objects.all():
        assert "below zero" in str(payee_obstacle(payout, clock.now()))


def test_ten_cancels_give_it_back_once(ready: Party, ravi: User) -> None:
    payout = withdrawing(ready, 10 * USDC)

    def cancel(_: int) -> bool:
        try:
            withdrawal_cancel(party=ready, payout_id=payout.pk, actor=ravi, now=clock.now())
        except DomainError:
            return False
        return True

    assert granted(at_once(cancel)) >= 1
    assert balance_of(ready).balance_micro == 10 * USDC
    connection.check_constraints()

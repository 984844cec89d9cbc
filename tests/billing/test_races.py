"""Many at once. Where a guard prevents a race, the race is shown first without it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TypeVar

import pytest
from django.db import IntegrityError, connection, transaction

from accounts.models import Party
from billing.models import Account, Deposit, EarningLine, Hold, Payout, PayoutAttempt, Transfer
from billing.selectors import balance_of, payable_of
from billing.services import (
    EarningInput,
    UsageInput,
    deposit_intent_open,
    deposits_read,
    earnings_mature,
    hold_place,
    hold_release,
    payouts_run,
    policies_demo_install,
    usage_post_many,
)
from core import clock
from core.errors import InsufficientFunds
from core.ids import uuid7
from tests.billing.chain.world import USDC, World
from tests.billing.payouts import next_monday, payable, released, wallet_for
from tests.factories.billing import earned, funded

T = TypeVar("T")
TEN = 10


def at_once(work: Callable[[int], T], count: int = TEN) -> list[T]:
    """``work(0)`` … ``work(count - 1)`` in threads with connections of their own, all let go together."""
    gate = threading.Barrier(count)

    def run(number: int) -> T:
        try:
            gate.wait(60)
            return work(number)
        finally:
            connection.close()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def test_ten_holds_for_the_last_cent_the_race(committed_db: str, customer: Party) -> None:
    """The control: read, check, write grants all ten of them 60 of 100."""
    funded(customer, 100)
    account = Account.objects.get(owner=customer, kind="customer")
    all_have_read = threading.Barrier(TEN)

    def hold(_: int) -> bool:
        seen = Account.objects.get(pk=account.pk)
        enough = seen.balance - seen.held >= 60
        all_have_read.wait(60)
        if enough:
            with connection.cursor() as cursor:
                cursor.execute("UPDATE billing_account SET held = held + 60 WHERE id = %s", [account.pk])
        return enough

    assert at_once(hold) == [True] * TEN
    account.refresh_from_db()
    assert account.held == 600
    Account.objects.filter(pk=account.pk).update(held=0)


def test_ten_holds_for_the_last_cent(committed_db: str, customer: Party) -> None:
    funded(customer, 100)

    def hold(number: int) -> bool:
        try:
            hold_place(party=customer, amount_micro=60, source=f"job:{number}", now=clock.now())
        except InsufficientFunds:
            return False
        return True

    assert sorted(at_once(hold)) == [False] * 9 + [True]
    assert balance_of(customer).available_micro == 40
    assert Hold.objects.count() == 1


def test_ten_times_the_same_hold_is_one_hold(committed_db: str, customer: Party) -> None:
    funded(customer, 1_000)
    holds = at_once(lambda _: hold_place(party=customer, amount_micro=60, source="job:1", now=clock.now()).pk)
    assert len(set(holds)) == 1
    assert balance_of(customer).held_micro == 60
    at_once(lambda _: hold_release(source="job:1", now=clock.now()))
    assert balance_of(customer).held_micro == 0


def test_a_source_posted_by_ten_at_once_moves_money_once(committed_db: str, customer: Party, provider: Party) -> None:
    line, at = EarningInput(uuid7(), "rtx-4090", uuid7()), clock.now()
    item = UsageInput("usage:1", customer, provider, 100, 1_000, [line], at)
    answers = [answer for (answer,) in at_once(lambda _: usage_post_many(items=[item], now=at))]
    assert sum(answer.created for answer in answers) == 1
    assert len({answer.transfer_id for answer in answers}) == 1
    assert balance_of(customer).balance_micro == -100
    assert EarningLine.objects.count() == 1


def test_batches_over_the_same_accounts_in_opposite_order_never_deadlock(
    committed_db: str, customer: Party, provider: Party
) -> None:
    pairs = [(customer, provider), (provider, customer)]

    def post(number: int) -> int:
        items = []
        for n in range(40):
            payer, earner = pairs[(n + number) % 2]
            line = EarningInput(uuid7(), "rtx-4090", uuid7())
            items.append(UsageInput(f"usage:{number}:{n}", payer, earner, 10, 1_000, [line], clock.now()))
        answers = usage_post_many(items=items if number % 2 else items[::-1], now=clock.now())
        return sum(answer.created for answer in answers)

    assert sum(at_once(post, 8)) == 320
    assert balance_of(customer).balance_micro == balance_of(provider).balance_micro == -1_600


def test_earnings_mature_once_however_many_jobs_run(committed_db: str, customer: Party, provider: Party) -> None:
    at = clock.now() - timedelta(days=8)
    for _ in range(20):
        earned(provider, customer, 100, at=at)
    moved = at_once(lambda _: earnings_mature(now=clock.now()), 4)
    assert sum(moved) == 20
    assert payable_of(provider) == 20 * 90


def test_four_readers_credit_a_deposit_once(committed_db: str, chain: World, customer: Party) -> None:
    reference = deposit_intent_open(party=customer, amount_micro=None, now=clock.now()).reference
    chain.deposit(chain.customer(), 5 * USDC, references=[reference])
    chain.finalize()
    assert sorted(at_once(lambda _: deposits_read(now=clock.now()), 4)) == [0, 0, 0, 1]
    assert (Deposit.objects.count(), balance_of(customer).balance_micro) == (1, 5 * USDC)


def test_a_run_planned_by_four_beats_reserves_once(
    committed_db: str, chain: World, customer: Party, provider: Party
) -> None:
    policies_demo_install(now=clock.now())
    wallet_for(provider)
    payable(provider, customer, 5 * USDC)
    monday = next_monday(clock.now()).date()
    at_once(lambda _: payouts_run(as_of=monday, now=clock.now()), 4)
    assert [payout.amount_micro for payout in Payout.objects.all()] == [5 * USDC]
    assert payable_of(provider) == 0


def test_a_cancel_waits_for_an_attempt_under_way_and_is_then_refused(
    committed_db: str, chain: World, customer: Party, provider: Party
) -> None:
    payout, _ = released(provider, customer, 5 * USDC)
    inserted, cancelling = threading.Event(), threading.Event()
    other = Transfer.objects.order_by("pk").first()
    assert other is not None

    def insert() -> None:
        try:
            with transaction.atomic():
                PayoutAttempt.objects.create(
                    payout=payout,
                    n=1,
                    message=b"m",
                    raw=b"r",
                    signature="s",
                    blockhash="b",
                    last_valid_block_height=1,
                    context_slot=1,
                    hot_wallet="h",
                )
                inserted.set()
                cancelling.wait(60)
        finally:
            connection.close()

    def cancel() -> str:
        try:
            inserted.wait(60)
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '200ms'")
                with pytest.raises(Exception, match="lock timeout"):
                    cursor.execute(
                        "UPDATE billing_payout SET status = 'cancelled', closing_transfer_id = %s", [other.pk]
                    )
                cancelling.set()
                cursor.execute("SET lock_timeout = '5s'")
                with pytest.raises(IntegrityError, match="cannot be cancelled"):
                    cursor.execute(
                        "UPDATE billing_payout SET status = 'cancelled', closing_transfer_id = %s", [other.pk]
                    )
            return "refused"
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(insert)
        assert pool.submit(cancel).result(20) == "refused"
        running.result(20)
    payout.refresh_from_db()
    assert payout.status == Payout.Status.READY


def test_a_hold_asked_for_ten_times_at_once_is_one_hold_even_where_it_takes_the_last_cent(
    committed_db: str, customer: Party
) -> None:
    funded(customer, 60)
    found = at_once(lambda _: hold_place(party=customer, amount_micro=60, source="hold:same", now=clock.now()).pk)
    assert len(set(found)) == 1
    assert balance_of(customer).held_micro == 60

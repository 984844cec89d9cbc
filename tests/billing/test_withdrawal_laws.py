"""What the database itself wants of withdrawals: tried through raw SQL as the application's own role."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import Error, connection, transaction

from accounts.models import Party, User
from billing.models import Account, PayoutRun, Transfer
from billing.services import account_open, hold_place, transfer_post, withdrawal_cancel
from core import clock
from core.ids import uuid7
from tests.billing.chain.world import USDC
from tests.billing.test_withdrawals import FEE, ready
from tests.factories.withdrawals import withdrawal_wallet, withdrawing

pytestmark = pytest.mark.django_db

INSERT = """
INSERT INTO billing_payout (id, created_at, run_id, party_id, asset, amount_micro, fee_micro, request_key, rail,
    destination_id, address, status, note, next_look_at, reserve_transfer_id)
SELECT gen_random_uuid(), p.created_at, coalesce(%(run)s, p.run_id), coalesce(%(party)s, p.party_id), p.asset,
    coalesce(%(amount)s, p.amount_micro), p.fee_micro, %(key)s, p.rail, coalesce(%(destination)s, p.destination_id),
    p.address, 'awaiting_release', '', p.next_look_at, %(transfer)s
FROM billing_payout p LIMIT 1
"""


def insert(transfer: Transfer, **values: Any) -> None:
    run = PayoutRun.objects.create(kind="withdraw", period_start="2026-11-02", period_end="2026-11-03")
    known = {"run": run.pk, "party": None, "amount": None, "destination": None, "key": uuid7(), "transfer": transfer.pk}
    with connection.cursor() as cursor:
        cursor.execute(INSERT, known | values)


def refused(match: str, transfer: Transfer, **values: Any) -> None:
    with pytest.raises(Error, match=match), transaction.atomic():
        insert(transfer, **values)


def reserved(customer: Party, amount: int, *, fee: int = FEE) -> Transfer:
    """What a second withdrawal of the same customer would reserve, without a floor."""
    balance, flight = (account_open(kind=kind, owner=customer) for kind in ("customer", "payout_in_flight"))
    fees = account_open(kind=Account.Kind.NETWORK_FEE)
    legs = [(balance.pk, -amount), (flight.pk, amount - fee), (fees.pk, fee)]
    now = clock.now()
    return transfer_post(source=f"x:{uuid7()}", kind="withdrawal_reserved", legs=legs, effective_at=now, now=now)


def test_the_database_wants_the_money_reserved_and_the_floor_kept(customer: Party, provider: Party) -> None:
    withdrawing(ready(customer), 20 * USDC)
    with transaction.atomic():
        good = reserved(customer, 8 * USDC)
        for wrong in (7 * USDC, 8 * USDC, 20 * USDC):
            refused("reserved 8000000 from the balance", good, amount=wrong)
        refused("only a withdrawal has a request key", good, amount=8 * USDC - FEE, key=None)
        place = withdrawal_wallet(provider)
        refused("another party or purpose", good, amount=8 * USDC - FEE, destination=place.pk)
        refused("another party or purpose", good, amount=8 * USDC - FEE, party=provider.pk)
        insert(good, amount=8 * USDC - FEE)  # the control
        transaction.set_rollback(True)
    with transaction.atomic():
        refused("short of what is set aside", reserved(customer, 10 * USDC + 1), amount=10 * USDC + 1 - FEE)
        transaction.set_rollback(True)
    hold_place(party=customer, amount_micro=6 * USDC, source="job:1", now=clock.now())
    with transaction.atomic():
        refused("short of what is set aside", reserved(customer, 8 * USDC), amount=8 * USDC - FEE)
        transaction.set_rollback(True)


def test_the_database_wants_a_cancel_to_undo_exactly_the_reserve(customer: Party, ravi: User) -> None:
    payout = withdrawing(ready(customer), 20 * USDC)
    balance, flight = (account_open(kind=kind, owner=customer) for kind in ("customer", "payout_in_flight"))
    fees = account_open(kind=Account.Kind.NETWORK_FEE)
    now, amount = clock.now(), payout.amount_micro
    for legs in (
        [(flight.pk, -amount), (balance.pk, amount)],  # keeps the fee
        [(flight.pk, -amount), (balance.pk, amount + 2 * FEE), (fees.pk, -2 * FEE)],  # gives more than was taken
    ):
        with pytest.raises(Error, match="gives back is not what its reserve took"), transaction.atomic():
            back = transfer_post(
                source=f"x:{uuid7()}", kind="withdrawal_cancelled", legs=legs, effective_at=now, now=now
            )
            with connection.cursor() as cursor:
                cursor.execute("UPDATE billing_payout SET status = 'cancelled', closing_transfer_id = %s", [back.pk])
    withdrawal_cancel(party=customer, payout_id=payout.pk, actor=ravi, now=now)  # the control


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE billing_payout SET fee_micro = 0",
        "UPDATE billing_payout SET request_key = gen_random_uuid()",
        "UPDATE billing_payoutrun SET kind = 'weekly'",
        "UPDATE billing_destination SET purpose = 'payout'",
    ],
)
def test_what_was_asked_for_stays(customer: Party, statement: str) -> None:
    withdrawing(ready(customer), 20 * USDC)
    with pytest.raises(Error, match="written once"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)


def test_two_withdrawals_of_a_day_are_two_runs_and_a_week_is_one(customer: Party) -> None:
    ready(customer)
    withdrawing(customer, 5 * USDC)
    withdrawing(customer, 5 * USDC)
    assert PayoutRun.objects.filter(kind="withdraw").count() == 2
    run = PayoutRun.objects.create(kind="weekly", period_start="2026-11-02", period_end="2026-11-09")
    with pytest.raises(Error, match="billing_payoutrun_period_once"), transaction.atomic():
        PayoutRun.objects.create(kind="weekly", period_start=run.period_start, period_end=run.period_end)

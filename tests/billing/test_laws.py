"""The laws of the ledger hold against raw SQL as the application's own role."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from django.db import Error, connection, transaction

from accounts.models import Party
from billing.models import Account, EarningLine, Posting, Transfer
from billing.services import account_open
from core import clock
from tests.factories.billing import earned, funded

pytestmark = pytest.mark.django_db


def sql(statement: str, parameters: list[object] | None = None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)


def header(source: str) -> UUID:
    key = uuid4()
    sql(
        "INSERT INTO billing_transfer (id, created_at, source, kind, request_hash, effective_at)"
        " VALUES (%s, %s, %s, 'usage', %s, %s)",
        [key, clock.now(), source, b"\0" * 32, clock.now()],
    )
    return key


def leg(transfer: UUID, account: Account, amount: int) -> None:
    sql(
        "INSERT INTO billing_posting (transfer_id, account_id, amount) VALUES (%s, %s, %s)",
        [transfer, account.pk, amount],
    )


@pytest.fixture
def wallet(customer: Party) -> Account:
    return account_open(kind="customer", owner=customer)


@pytest.fixture
def fees() -> Account:
    return account_open(kind="platform_fee")


def refused(match: str, *statements: object) -> None:
    """The statements, and the deferred laws after them, in a savepoint of their own."""
    with pytest.raises(Error, match=match), transaction.atomic():
        for statement in statements:
            statement() if callable(statement) else sql(str(statement))
        connection.check_constraints()


def test_a_transfer_that_does_not_add_up_is_refused(wallet: Account, fees: Account) -> None:
    def post() -> None:
        key = header("x")
        leg(key, wallet, -100)
        leg(key, fees, 99)

    refused("does not add up to zero: USDC -1", post)
    assert not Transfer.objects.exists()


def test_assets_add_up_each_for_itself(wallet: Account, fees: Account) -> None:
    gas = account_open(kind="network_fee", asset="SOL")

    def post() -> None:
        key = header("x")
        leg(key, wallet, -100)
        leg(key, gas, 100)

    refused("does not add up to zero: SOL 100, USDC -100|USDC -100, SOL 100", post)


@pytest.mark.parametrize("legs", [0, 1])
def test_a_transfer_with_fewer_than_two_postings_is_refused(wallet: Account, legs: int) -> None:
    def post() -> None:
        key = header("x")
        if legs:
            leg(key, wallet, 5)

    refused("at least 2 are needed", post)


def test_the_law_fires_once_per_transfer_not_once_per_posting(wallet: Account, fees: Account) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT tgrelid::regclass::text, tgtype & 1 FROM pg_trigger WHERE tgname = 'billing_transfer_law'"
        )
        assert cursor.fetchall() == [("billing_transfer", 1)]
        cursor.execute(
            "SELECT count(*) FROM pg_trigger WHERE tgrelid = 'billing_posting'::regclass AND tgdeferrable"
            " AND NOT tgisinternal"
        )
        assert cursor.fetchone() == (0,)


def test_a_posting_of_zero_is_refused(wallet: Account, fees: Account) -> None:
    refused("billing_posting_not_zero", lambda: leg(header("x"), wallet, 0))


def test_a_source_is_posted_once(customer: Party) -> None:
    funded(customer, 100, source="deposit:1")
    refused("billing_transfer_source", lambda: header("deposit:1"))


@pytest.mark.parametrize("table", ["billing_transfer", "billing_posting", "billing_earningline"])
@pytest.mark.parametrize("verb", ["UPDATE", "DELETE", "TRUNCATE"])
def test_what_is_written_stays_written(provider: Party, customer: Party, table: str, verb: str) -> None:
    earned(provider, customer, 100)
    column = {"billing_transfer": "source", "billing_posting": "amount", "billing_earningline": "amount_micro"}[table]
    new = "'y'" if column == "source" else "7"
    statement = {
        "UPDATE": f"UPDATE {table} SET {column} = {new}",
        "DELETE": f"DELETE FROM {table}",
        "TRUNCATE": f"TRUNCATE {table} CASCADE",
    }[verb]
    refused("written once|permission denied", statement)
    assert (Transfer.objects.count(), Posting.objects.count(), EarningLine.objects.count()) == (1, 3, 1)


def test_a_line_matures_once(provider: Party, customer: Party) -> None:
    earned(provider, customer, 100)
    now = clock.now()

    def mature_twice() -> None:
        sql("UPDATE billing_earningline SET matured_at = %s", [now])
        sql("UPDATE billing_earningline SET matured_at = NULL")

    refused("written once", mature_twice)


def test_a_live_balance_follows_its_postings_and_nothing_else(wallet: Account, fees: Account) -> None:
    key = header("x")
    leg(key, wallet, -100)
    leg(key, fees, 100)
    wallet.refresh_from_db()
    assert wallet.balance == -100
    refused("written by postings only", "UPDATE billing_account SET balance = 5")
    refused(
        "opens empty",
        "INSERT INTO billing_account (kind, asset, live, min_balance, balance, held, created_at)"
        " VALUES ('rent', 'X', true, 0, 7, 0, '2026-01-01')",
    )
    refused("written once", "UPDATE billing_account SET kind = 'treasury'")


def test_the_application_role_cannot_switch_a_law_off() -> None:
    refused("must be owner", "ALTER TABLE billing_posting DISABLE TRIGGER ALL")

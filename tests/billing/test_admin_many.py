"""The admin's pages of money with many rows: no query per row, a page of an inline at a time, no file's bytes in a list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from accounts.models import User
from accounts.selectors import party_of
from billing.models import BankFile, Payout, PayoutRun
from core.admin import ReadOnlyInline
from tests.billing.bank import (
    MONDAY,
    approved,
    bank_account,
    bank_settings,
    file_of,
    owed,
    planned,
    policies,
    rate,
    take_in,
)
from tests.billing.bank_files import Entry, statement
from tests.factories.cast import person

pytestmark = pytest.mark.django_db
SignedIn = Callable[[User], Client]
FEW, MANY = 2, 6


@pytest.fixture(autouse=True)
def monday() -> Iterator[None]:
    with time_machine.travel(MONDAY, tick=False):
        yield


def queries(client: Client, url: str) -> list[str]:
    with CaptureQueriesContext(connection) as seen:
        answer = client.get(url)
        assert answer.status_code == 200
        return [query["sql"] for query in seen.captured_queries]


def paid_by_bank(number: int, people: tuple[User, User], customer: User) -> BankFile:
    """A run with so many bank payouts, in one file, and a statement that has booked none of them."""
    rate(*people)
    for each in range(number):
        payee = party_of(person(f"Payee{each}"))
        bank_account(payee)
        owed(payee, party_of(customer), 60_000_000)
    planned()
    for payout in Payout.objects.order_by("pk"):
        approved(payout, *people)
    file = file_of(people)
    take_in(statement(*(Entry(-100 - each) for each in range(number))), people[0])
    return file


@pytest.mark.parametrize("number", [FEW, MANY])
def test_a_page_costs_as_many_queries_for_many_rows_as_for_few(
    number: int, settings: Any, olga: User, otto: User, ravi: User, signed_in: SignedIn, record_property: Any
) -> None:
    bank_settings(settings)
    policies()
    file, client = paid_by_bank(number, (olga, otto), ravi), signed_in(olga)
    assert file.line_count == number
    run = PayoutRun.objects.get(payouts__isnull=False, payouts__pk=Payout.objects.first().pk)  # type: ignore[union-attr]
    lists = (
        "bankfile",
        "bankline",
        "bankmessage",
        "bankentry",
        "payout",
        "payoutrun",
        "transfer",
        "account",
        "auditentry",
    )
    pages = {name: reverse(f"admin:billing_{name}_changelist") for name in lists}
    pages["file"] = reverse("admin:billing_bankfile_change", args=[file.pk])
    pages["run"] = reverse("admin:billing_payoutrun_change", args=[run.pk])
    client.get("/admin/")  # permissions and content types are known from here on
    for name, url in pages.items():
        found = queries(client, url)
        about_rows = [sql for sql in found if "auth_permission" not in sql]
        assert len(about_rows) <= LIMITS[name], f"{name}: {len(about_rows)} queries for {number} rows"
        assert not [sql for sql in found if '."data"' in sql], f"{name} loads the bytes of files"


LIMITS = {
    "bankfile": 9,
    "bankline": 9,
    "bankmessage": 9,
    "bankentry": 9,
    "payout": 9,
    "payoutrun": 9,
    "transfer": 9,
    "account": 9,
    "auditentry": 9,
    "file": 12,
    "run": 12,
}
"""Session, user, count, rows, and what the filters ask; on an object's page its inlines' counts and rows."""


def test_an_inline_shows_a_page_at_a_time(
    settings: Any, olga: User, otto: User, ravi: User, signed_in: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ReadOnlyInline, "per_page", 2)
    bank_settings(settings)
    policies()
    file, client = paid_by_bank(3, (olga, otto), ravi), signed_in(olga)
    url = reverse("admin:billing_bankfile_change", args=[file.pk])
    lines = list(file.lines.order_by("n", "pk").values_list("end_to_end_id", flat=True))
    first, second = client.get(url).content.decode(), client.get(f"{url}?lines-page=2").content.decode()
    assert [line in first for line in lines] == [True, True, False]
    assert [line in second for line in lines] == [False, False, True]

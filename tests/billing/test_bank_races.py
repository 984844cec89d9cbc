"""Two operators at once. Where a guard prevents a race, the race is shown first without it."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connections

from accounts.models import Party, User
from billing.models import BankEntry, BankFile, BankLine, Payout, Transfer
from billing.selectors import in_flight_of
from billing.services import bank_decision_confirm, bank_decision_propose, bank_file_make, payout_cancel
from core.errors import Conflict, DomainError
from tests.billing.bank import MONDAY, bank_settings, file_of, policies, rate, released, take_in
from tests.billing.bank_files import Entry, statement
from tests.factories.cast import person
from tests.factories.concurrency import together

FOUR = 4
People = tuple[User, User]


@pytest.fixture
def people(committed_db: str, settings: Any, olga: User, otto: User) -> People:
    bank_settings(settings)
    policies()
    rate(olga, otto)
    return olga, otto


@pytest.fixture
def payout(people: People, provider: Party, customer: Party) -> Payout:
    return released(provider, customer, 60_000_000, people)


def test_two_operators_put_one_payout_into_two_files_the_race(people: People, payout: Payout) -> None:
    """The control: look who waits, then write the line. Without the guards both see it waiting, and it is paid twice."""
    with connections["owner"].cursor() as cursor:
        cursor.execute("DROP INDEX billing_bankline_one_live")
    file = file_of(people)
    first = file.lines.get()
    with connections["owner"].cursor() as cursor:
        cursor.execute("ALTER TABLE billing_bankline DISABLE TRIGGER USER")
    both_have_looked = threading.Barrier(2)

    def write(number: int) -> int:
        waiting = Payout.objects.filter(pk=payout.pk, status="submitted").count()
        both_have_looked.wait(60)
        BankLine.objects.create(
            file=file, payout=payout, n=number + 2, end_to_end_id=f"race-{number}", amount_cents=first.amount_cents
        )
        return waiting

    assert together(2, write) == [1, 1]
    assert BankLine.objects.filter(payout=payout, state="written").count() == 3
    with connections["owner"].cursor() as cursor:
        cursor.execute("DELETE FROM billing_bankline WHERE end_to_end_id LIKE 'race-%%'")


def test_two_operators_put_one_payout_into_one_file(people: People, payout: Payout) -> None:
    found = together(FOUR, lambda n: bank_file_make(scheme="sepa", actor=people[n % 2], now=MONDAY))
    made = [each for each in found if isinstance(each, BankFile)]
    assert len(made) == 1
    assert all(isinstance(each, Conflict) for each in found if each not in made), found
    assert BankLine.objects.get().payout_id == payout.pk
    assert BankFile.objects.count() == 1


def test_a_file_and_a_cancel_at_once_one_of_them_wins(people: People, payout: Payout) -> None:
    def go(number: int) -> object:
        if number % 2:
            return bank_file_make(scheme="sepa", actor=people[0], now=MONDAY)
        fresh = Payout.objects.get(pk=payout.pk)
        return payout_cancel(payout=fresh, reason="no", now=MONDAY)

    found = together(2, go)
    payout.refresh_from_db()
    lines = BankLine.objects.filter(state="written").count()
    assert sum(isinstance(each, DomainError) for each in found) == 1, found
    assert (payout.status, lines) in (("cancelled", 0), ("submitted", 1))
    assert in_flight_of(payout.party) == lines * payout.amount_micro


def test_the_same_statement_taken_in_by_four_at_once_pays_once(people: People, payout: Payout) -> None:
    line = file_of(people).lines.get()
    paid = Entry(-line.amount_cents, line.end_to_end_id, "R1")
    # Two operators with the same file, two more with another one that has the same booking.
    files = [statement(paid, name=f"S{n // 2}") for n in range(FOUR)]
    found = together(FOUR, lambda n: take_in(files[n], people[n % 2]).outcome)
    assert sorted(map(str, found)) == ["{'known': 1}"] * 2 + ["{'settled': 1}"] * 2
    assert BankEntry.objects.count() == Transfer.objects.filter(kind="payout_settled").count() == 1


def test_two_different_decisions_about_one_entry_one_counts(people: People, payout: Payout) -> None:
    line = file_of(people).lines.get()
    take_in(statement(Entry(-line.amount_cents)), people[0])
    entry = BankEntry.objects.get()
    third = person("Third", is_staff=True, permissions=True)
    said = [
        bank_decision_propose(verdict=verdict, entry=entry, line=about, reason="x", actor=people[0], now=MONDAY)
        for verdict, about in (("settled", line), ("charge", None))
    ]
    who = (people[1], third)
    found = together(2, lambda n: bank_decision_confirm(decision=said[n], actor=who[n], now=MONDAY))
    assert sum(isinstance(each, Conflict) for each in found) == 1, found
    entry.refresh_from_db()
    assert Transfer.objects.filter(kind__in=("payout_settled", "bank_booked")).count() == 1
    assert entry.state == "resolved"

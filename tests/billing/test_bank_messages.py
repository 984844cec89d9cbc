"""What the bank sends: exact matches move money, everything else waits for two people, and nothing counts twice."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import Error, connection, transaction

from accounts.models import Party, User
from billing.models import BankDecision, BankEntry, BankFile, BankLine, BankMessage, Payout, Transfer
from billing.rails.base import FileRefused
from billing.selectors import in_flight_of, payable_of
from billing.selectors.balances import house_balance
from billing.services import (
    BankUnavailable,
    bank_decision_confirm,
    bank_decision_propose,
    bank_file_make,
    bank_message_show,
    payout_cancel,
)
from core.errors import Conflict, Denied, DomainError, Invalid
from tests.billing.bank import (
    MONDAY,
    OTHER_IBAN,
    bank_settings,
    file_of,
    policies,
    rate,
    released,
    take_in,
)
from tests.billing.bank_files import DAY, Entry, report, statement

pytestmark = pytest.mark.django_db
People = tuple[User, User]


@pytest.fixture
def people(settings: Any, olga: User, otto: User) -> People:
    bank_settings(settings)
    policies()
    rate(olga, otto)
    return olga, otto


@pytest.fixture
def line(people: People, provider: Party, customer: Party) -> BankLine:
    """Of 60 USDC in a file that is at the bank: 51.01 EUR."""
    released(provider, customer, 60_000_000, people)
    return file_of(people).lines.get()


def paid(line: BankLine, **changes: Any) -> Entry:
    return Entry(**{"cents": -line.amount_cents, "end_to_end_id": line.end_to_end_id, "reference": "R1", **changes})


def back(line: BankLine, **changes: Any) -> Entry:
    return Entry(
        **{
            "cents": line.amount_cents,
            "end_to_end_id": line.end_to_end_id,
            "reference": "R2",
            "reason": "AC04",
            **changes,
        }
    )


def unmoved(line: BankLine) -> None:
    line.refresh_from_db()
    payout = Payout.objects.get(pk=line.payout_id)
    assert (payout.status, line.state in ("written", "accepted")) == ("submitted", True)
    assert in_flight_of(payout.party) == payout.amount_micro
    assert not Transfer.objects.filter(kind__in=("payout_settled", "payout_returned", "bank_booked")).exists()
    assert house_balance("bank", "EUR") == house_balance("trading", "EUR") == 0


# -- pain.002 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["ACTC", "ACCP", "ACSP", "ACSC"])
def test_accepted_is_not_paid_whatever_the_bank_calls_it(people: People, line: BankLine, status: str) -> None:
    file = BankFile.objects.get()
    found = take_in(report(file.message_id, (line.end_to_end_id, status, "")), people[0])
    assert found.outcome == {"accepted": 1}
    unmoved(line)
    assert line.state == "accepted"


def test_a_rejected_line_frees_its_payout_and_moves_no_money(people: People, line: BankLine) -> None:
    file = BankFile.objects.get()
    data = report(file.message_id, (line.end_to_end_id, "RJCT", "AC04"))
    for _ in range(2):
        assert take_in(data, people[0]).outcome == {"rejected": 1}
    assert take_in(data + b"\n", people[0]).outcome == {"rejected": 1}  # other bytes, the same word
    line.refresh_from_db()
    payout = Payout.objects.get()
    assert (line.state, line.reason, payout.status, in_flight_of(payout.party)) == (
        "rejected",
        "AC04",
        "ready",
        payout.amount_micro,
    )
    payout_cancel(payout=payout, reason="closed account", now=MONDAY)
    assert payable_of(payout.party) == 60_000_000


def test_a_file_that_is_rejected_whole(people: People, line: BankLine) -> None:
    assert take_in(report(BankFile.objects.get().message_id, group="RJCT", reason="FF01"), people[0]).outcome == {
        "rejected": 1
    }
    line.refresh_from_db()
    assert (line.state, line.reason) == ("rejected", "FF01")


def test_an_answer_about_nothing_of_ours(people: People, line: BankLine) -> None:
    with pytest.raises(FileRefused, match="a file of ours"):
        take_in(report("GPXother", (line.end_to_end_id, "RJCT", "AC04")), people[0])
    file = BankFile.objects.get()
    found = take_in(report(file.message_id, ("unknown", "RJCT", ""), ("unknown", "RJCT", "")), people[0])
    assert found.outcome == {"suspense": 1}
    entry = BankEntry.objects.get()
    assert (entry.side, entry.reason) == ("report", "no line of this file")
    unmoved(line)
    noted = bank_decision_propose(verdict="noted", entry=entry, reason="their test", actor=people[0], now=MONDAY)
    bank_decision_confirm(decision=noted, actor=people[1], now=MONDAY)
    entry.refresh_from_db()
    assert (entry.state, entry.outcome) == ("resolved", "noted")


def test_a_rejection_after_the_booking_moves_nothing(people: People, line: BankLine) -> None:
    take_in(statement(paid(line)), people[0])
    found = take_in(report(BankFile.objects.get().message_id, (line.end_to_end_id, "RJCT", "AC04")), people[0])
    assert found.outcome == {"suspense": 1}
    assert (Payout.objects.get().status, BankLine.objects.get().state) == ("settled", "settled")


# -- camt.053 ----------------------------------------------------------------------------------------------------------


def test_a_booked_debit_pays_it_once(people: People, line: BankLine, provider: Party) -> None:
    data = statement(paid(line), Entry(-100, status="PDNG", end_to_end_id=line.end_to_end_id))
    first = take_in(data, people[0])
    assert first.outcome == {"settled": 1}
    assert take_in(data, people[1]).pk == first.pk
    # The same movement on another day's statement, among others.
    again = take_in(statement(Entry(-7, reference="F"), paid(line), name="S2", day=DAY + timedelta(days=1)), people[0])
    assert again.outcome == {"known": 1, "suspense": 1}
    payout = Payout.objects.get()
    assert (payout.status, in_flight_of(provider)) == ("settled", 0)
    assert (house_balance("bank", "EUR"), house_balance("trading")) == (line.amount_cents, payout.amount_micro)
    assert BankEntry.objects.filter(outcome="settled").count() == 1


def wrong_entries(line: BankLine) -> dict[str, tuple[Entry, str]]:
    cents = line.amount_cents
    return {
        "unknown": (paid(line, end_to_end_id="f" * 32), "unknown end-to-end id"),
        "none": (paid(line, end_to_end_id=""), "no end-to-end id"),
        "partial": (paid(line, cents=-(cents - 1)), "are booked, the line is of"),
        "too much": (paid(line, cents=-(cents + 1)), "are booked, the line is of"),
        "foreign": (paid(line, currency="USD"), "USD"),
        "credit": (back(line), "a credit for a line that is written"),
        "batch": (paid(line, parts=((line.end_to_end_id, cents - 1), ("x", 2))), "do not add up"),
    }


@pytest.mark.parametrize("kind", ["unknown", "none", "partial", "too much", "foreign", "credit", "batch"])
def test_what_does_not_fit_exactly_waits_in_suspense(people: People, line: BankLine, kind: str) -> None:
    entry, reason = wrong_entries(line)[kind]
    for n in range(2):
        assert take_in(statement(entry, name=f"S{n}"), people[0]).outcome in ({"suspense": 1}, {"known": 1})
    found = BankEntry.objects.get()
    assert found.state == "suspense" and reason in found.reason
    unmoved(line)
    # And the true booking still finds its line.
    assert take_in(statement(paid(line, reference="R9"), name="S9"), people[0]).outcome == {"settled": 1}


def test_a_second_debit_for_the_same_line_is_nobodys(people: People, line: BankLine) -> None:
    found = take_in(statement(paid(line), paid(line, reference="R2")), people[0])
    assert found.outcome == {"settled": 1, "suspense": 1}
    assert BankEntry.objects.get(state="suspense").reason == "a debit for a line that is settled"
    assert house_balance("bank", "EUR") == line.amount_cents


def test_paid_and_returned_on_one_statement_in_any_order(people: People, line: BankLine, provider: Party) -> None:
    assert take_in(statement(back(line), paid(line)), people[0]).outcome == {"settled": 1, "returned": 1}
    assert (payable_of(provider), in_flight_of(provider), house_balance("bank", "EUR")) == (60_000_000, 0, 0)
    again = take_in(statement(back(line, reference="R3"), name="S2"), people[0])
    assert again.outcome == {"suspense": 1}
    assert payable_of(provider) == 60_000_000


def test_a_batch_whose_movements_add_up_pays_each(people: People, line: BankLine) -> None:
    entry = Entry(-(line.amount_cents + 5), parts=((line.end_to_end_id, line.amount_cents), ("other", 5)))
    assert take_in(statement(entry), people[0]).outcome == {"settled": 1, "suspense": 1}


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"account": OTHER_IBAN}, "our account"),
        ({"currency": "USD"}, "a statement in USD"),
        ({"missing": 1}, "an entry is missing"),
    ],
)
def test_a_statement_that_is_not_ours_or_does_not_add_up_is_refused_whole(
    people: People, line: BankLine, change: dict[str, Any], match: str
) -> None:
    with pytest.raises(FileRefused, match=match):
        take_in(statement(paid(line), **change), people[0])
    unmoved(line)
    assert not BankMessage.objects.exists() and not BankEntry.objects.exists()


def test_who_may_take_in_and_look(people: People, line: BankLine, eve: User, ada: User, settings: Any) -> None:
    for who in (eve, ada):
        with pytest.raises(Denied):
            take_in(statement(paid(line)), who)
    unmoved(line)
    message = take_in(statement(Entry(-1)), people[0])
    with pytest.raises(Denied):
        bank_message_show(message_id=message.pk, actor=eve, now=MONDAY)
    assert b"BkToCstmrStmt" in bytes(bank_message_show(message_id=message.pk, actor=people[0], now=MONDAY).data)
    settings.BANK_SEPA_BIC = ""
    with pytest.raises(BankUnavailable):
        take_in(statement(paid(line), name="S3"), people[0])


# -- Two people --------------------------------------------------------------------------------------------------------


def decide(people: People, verdict: str, **about: Any) -> BankDecision:
    proposed = bank_decision_propose(verdict=verdict, reason="seen on paper", actor=people[0], now=MONDAY, **about)
    with pytest.raises(Denied, match="somebody else"):
        bank_decision_confirm(decision=proposed, actor=people[0], now=MONDAY)
    for _ in range(2):  # a second click
        confirmed = bank_decision_confirm(decision=proposed, actor=people[1], now=MONDAY)
    return confirmed


def test_charges_and_the_operators_money_are_posted_by_two(people: People, line: BankLine) -> None:
    take_in(statement(Entry(-250, reference="FEE"), Entry(500_00, reference="TOPUP")), people[0])
    charge, topup = (BankEntry.objects.get(reference=name) for name in ("FEE", "TOPUP"))
    decide(people, "charge", entry=charge)
    decide(people, "capital", entry=topup)
    balances = {kind: house_balance(kind, "EUR") for kind in ("bank", "bank_charges", "capital")}
    assert balances == {"bank": 250 - 500_00, "bank_charges": -250, "capital": 500_00}
    for verdict, entry in (("charge", charge), ("capital", topup)):
        with pytest.raises(Conflict):
            bank_decision_propose(verdict=verdict, reason="again", entry=entry, actor=people[1], now=MONDAY)


def test_a_debit_without_its_id_is_given_to_its_line(people: People, line: BankLine) -> None:
    take_in(statement(paid(line, end_to_end_id="")), people[0])
    decide(people, "settled", line=line, entry=BankEntry.objects.get())
    assert Payout.objects.get().status == "settled"
    # The bank's corrected statement has the id; the line is paid already.
    assert take_in(statement(paid(line), name="S2"), people[0]).outcome == {"suspense": 1}


def test_a_return_less_the_banks_fee_gives_the_payee_all_of_it(people: People, line: BankLine, provider: Party) -> None:
    take_in(statement(paid(line), back(line, cents=line.amount_cents - 120)), people[0])
    decide(people, "returned", line=line, entry=BankEntry.objects.get(state="suspense"))
    assert payable_of(provider) == 60_000_000
    balances = {kind: house_balance(kind, "EUR") for kind in ("bank", "bank_charges", "trading")}
    assert balances == {"bank": 120, "bank_charges": -120, "trading": 0}


def test_a_line_is_absent_only_when_statements_show_it(people: People, line: BankLine, provider: Party) -> None:
    with pytest.raises(Conflict, match="import the statements up to 2026-12-08"):
        bank_decision_propose(verdict="absent", line=line, reason="lost", actor=people[0], now=MONDAY)
    take_in(statement(Entry(-1)), people[0])  # of the day itself: too early
    with pytest.raises(Conflict, match="not proven"):
        bank_decision_propose(verdict="absent", line=line, reason="lost", actor=people[0], now=MONDAY)
    tuesday = DAY + timedelta(days=1)
    take_in(statement(paid(line, cents=-1), name="S2", day=tuesday), people[0])
    with pytest.raises(Conflict, match="a debit in suspense names it"):
        bank_decision_propose(verdict="absent", line=line, reason="lost", actor=people[0], now=MONDAY)
    decide(people, "charge", entry=BankEntry.objects.get(line=line))
    decide(people, "absent", line=line)
    line.refresh_from_db()
    assert (line.state, Payout.objects.get().status) == ("absent", "ready")
    second = file_of(people).lines.get()
    # It was booked after all: nothing is paid by it, and people are told.
    late = take_in(statement(paid(line), name="S3", day=tuesday), people[0])
    assert late.outcome == {"suspense": 1}
    assert BankEntry.objects.get(state="suspense", reference="R1").reason == "a debit for a line that is absent"
    assert (second.n, second.state, in_flight_of(provider) > 0) == (2, "written", True)


def test_a_file_that_nobody_could_fetch_is_no_proof_of_anything(
    people: People, provider: Party, customer: Party
) -> None:
    released(provider, customer, 60_000_000, people)
    unapproved = bank_file_make(scheme="sepa", actor=people[0], now=MONDAY).lines.get()
    decide(people, "absent", line=unapproved)
    assert Payout.objects.get().status == "ready"


@pytest.mark.parametrize(
    ("verdict", "side", "about"),
    [
        ("settled", "credit", "both"),
        ("returned", "debit", "both"),
        ("charge", "credit", "entry"),
        ("noted", "debit", "entry"),
        ("settled", "debit", "entry"),
        ("capital", "debit", "both"),
        ("absent", "debit", "both"),
        ("stolen", "debit", "entry"),
    ],
)
def test_what_cannot_be_is_refused_by_field(
    people: People, line: BankLine, verdict: str, side: str, about: str
) -> None:
    take_in(statement(Entry(-line.amount_cents if side == "debit" else line.amount_cents)), people[0])
    named = {"entry": BankEntry.objects.get(), **({"line": line} if about == "both" else {})}
    with pytest.raises(Invalid) as refusal:
        bank_decision_propose(verdict=verdict, reason="x", actor=people[0], now=MONDAY, **named)
    assert set(refusal.value.fields) <= {"verdict", "entry", "line"}
    with pytest.raises(Invalid) as refusal:
        bank_decision_propose(verdict="capital", reason=" \n", actor=people[0], now=MONDAY, entry=named["entry"])
    assert set(refusal.value.fields) == {"reason"}
    assert not BankDecision.objects.exists()
    unmoved(line)


def test_the_payee_and_outsiders_decide_nothing(people: People, line: BankLine, ada: User, eve: User) -> None:
    take_in(statement(paid(line, end_to_end_id="")), people[0])
    ada.is_staff = True
    ada.save(update_fields=["is_staff"])
    ada.user_permissions.set(people[0].user_permissions.all())
    ada = User.objects.get(pk=ada.pk)
    about = {"line": line, "entry": BankEntry.objects.get()}
    proposed = bank_decision_propose(verdict="settled", reason="x", actor=people[0], now=MONDAY, **about)
    for who in (ada, eve):
        with pytest.raises(DomainError):
            bank_decision_propose(verdict="settled", reason="x", actor=who, now=MONDAY, **about)
        with pytest.raises(DomainError):
            bank_decision_confirm(decision=proposed, actor=who, now=MONDAY)
    unmoved(line)


@pytest.mark.parametrize(
    "statement_",
    [
        "UPDATE billing_bankmessage SET data = 'x'",
        "DELETE FROM billing_bankmessage",
        "UPDATE billing_bankentry SET amount_cents = 1",
        "UPDATE billing_bankentry SET state = 'suspense', outcome = '', transfer_id = NULL",
        "UPDATE billing_bankline SET state = 'accepted'",
        "UPDATE billing_bankdecision SET reason = 'other'",
        "UPDATE billing_bankdecision SET confirmed_by_id = proposed_by_id, confirmed_at = now()",
    ],
)
def test_what_the_bank_said_stays_said(people: People, line: BankLine, statement_: str) -> None:
    take_in(statement(paid(line, end_to_end_id="")), people[0])
    decide(people, "settled", line=line, entry=BankEntry.objects.get())
    with pytest.raises(Error, match=r"written once|stays so"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement_)

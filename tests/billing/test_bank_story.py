"""Worked examples of bank payouts, with the figures done by hand, and a real bank's answers (mock-bank)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from accounts.models import Notification, Party, User
from billing.models import BankEntry, BankFile, BankLine, Payout, PayoutRun
from billing.selectors import in_flight_of, payable_of, payouts_of
from billing.selectors.balances import house_balance
from billing.selectors.documents import document_file
from billing.services import payout_cancel, payout_statement_issue, payouts_run
from billing.services.payouts.runs import runs_finish
from core.errors import Conflict
from tests.billing.bank import (
    CLOSED_IBAN,
    MONDAY,
    OTHER_IBAN,
    approved,
    bank_account,
    bank_settings,
    file_of,
    mock_bank,
    owed,
    planned,
    policies,
    rate,
    released,
    take_in,
)

pytestmark = pytest.mark.django_db

USED = 132_438_415
"""11,261 cents · 1.1702 / 0.995 = 132.438414…, rounded up."""


@pytest.fixture
def people(settings: Any, olga: User, otto: User) -> tuple[User, User]:
    bank_settings(settings)
    policies()
    return olga, otto


def test_a_provider_is_paid_in_euros_gets_it_back_and_is_paid_again(
    people: tuple[User, User], provider: Party, customer: Party
) -> None:
    """Ada has 132.45 USDC on Monday. A euro is 1.1702 dollars, less half a per cent: 132.45 · 0.995 / 1.1702 = 112.6191 EUR.

    112.61 EUR are paid, which take 132.438415 USDC; 0.011585 USDC stay payable. Her bank sends the money back on Thursday.
    The week after she is paid all of it again, with 20 USDC that she earned meanwhile.
    """
    rate(*people)
    payout = released(provider, customer, 132_450_000, people)
    assert (payout.amount_cents, payout.amount_micro, payout.status) == (112_61, USED, "ready")
    assert (payable_of(provider), in_flight_of(provider)) == (132_450_000 - USED, USED)

    with mock_bank("2026-12-07") as bank:
        bank.behave("return-later", days=3, reason="AC04")
        file = file_of(people)
        assert (file.line_count, file.control_cents, str(file.execution_date)) == (1, 112_61, "2026-12-07")
        bank.send(file)
        # Accepted is not paid.
        (report,) = bank.mail("pain.002")
        assert take_in(report, people[0]).outcome == {"accepted": 1}
        assert Payout.objects.get().status == "submitted"
        # Booked is.
        bank.to("2026-12-08")
        (statement,) = bank.mail("camt.053")
        assert take_in(statement, people[0]).outcome == {"settled": 1}
        assert (in_flight_of(provider), payable_of(provider)) == (0, 11_585)
        assert (house_balance("bank", "EUR"), house_balance("trading", "EUR")) == (112_61, -112_61)
        assert (house_balance("trading"), house_balance("treasury")) == (USED, 0)
        (row,) = payouts_of(provider)
        assert (row.status, row.amount_cents, row.currency, row.reference) == ("settled", 112_61, "EUR", payout.pk.hex)
        # It comes back: a transfer of its own. The payout was paid and stays so.
        bank.to("2026-12-14")
        outcomes = [take_in(data, people[0], now=MONDAY + timedelta(days=7)).outcome for data in bank.mail("camt.053")]
        assert outcomes == [{}, {}, {"returned": 1}, {}]
        assert (in_flight_of(provider), payable_of(provider)) == (0, 132_450_000)
        assert [house_balance(kind, "EUR") for kind in ("bank", "trading")] == [0, 0]
        assert [(row.status, row.returned) for row in payouts_of(provider)] == [("settled", True)]

        # The next run pays it again, at that day's rate: 152.45 · 0.995 / 1.18 = 128.5489 EUR.
        bank.behave("accept")
        later = MONDAY + timedelta(days=7)
        owed(provider, customer, 20_000_000, now=later)
        rate(*people, "1.18", now=later)
        planned(later)
        again = approved(Payout.objects.get(status="awaiting_release"), *people, now=later)
        assert again.amount_cents == 128_54
        bank.send(file_of(people, now=later))
        bank.to("2026-12-15")
        (statement,) = bank.mail("camt.053")
        assert take_in(statement, people[0], now=later).outcome == {"settled": 1}
    again.refresh_from_db()
    assert again.status == "settled"
    assert payable_of(provider) == 152_450_000 - again.amount_micro
    assert 0 <= payable_of(provider) < 11_860  # less than a cent is worth: 0.01 · 1.18 / 0.995
    assert house_balance("bank", "EUR") == 128_54
    runs_finish(now=later)
    assert set(PayoutRun.objects.filter(kind="weekly").values_list("status", flat=True)) == {"finished"}
    # Her statement of it says what came back, what stays, what was paid at which rate; and it adds up.
    document = payout_statement_issue(payout=again, now=later)
    lines = {line["kind"]: line["amount_micro"] for line in document.facts["lines"]}
    assert lines["payout_returned"] == USED and sum(lines.values()) == again.amount_micro == document.total_micro
    assert lines["carried_forward"] == -payable_of(provider)
    assert (document.facts["bank_amount"], document.facts["address"]) == ("128.54 EUR", "NL91 •••• 4300")
    assert "1.1800 USD − 0.5 % (ECB, 2026-12-14 15:30 UTC)" in document.facts["bank_rate"]
    assert document_file(document, "pdf").content.startswith(b"%PDF")
    kinds = set(Notification.objects.filter(kind__startswith="payout_").values_list("kind", flat=True))
    assert kinds == {"payout_banked", "payout_returned"}


def test_a_line_that_the_bank_rejects_gets_a_new_one_only_in_a_new_file(
    people: tuple[User, User], provider: Party, customer: Party
) -> None:
    rate(*people)
    bank_account(customer, OTHER_IBAN, name="Ravi")
    owed(customer, provider, 30_000_000)
    payout = released(provider, customer, 60_000_000, people, iban=CLOSED_IBAN)
    other = approved(Payout.objects.get(party=customer), *people)
    with mock_bank("2026-12-07") as bank:
        first = file_of(people)
        bank.send(first)
        with pytest.raises(Conflict, match="No released bank payout"):
            file_of(people)
        (report,) = bank.mail("pain.002")
        assert take_in(report, people[0]).outcome == {"accepted": 1, "rejected": 1}
        payout.refresh_from_db()
        assert (payout.status, "AC04" in payout.note) == ("ready", True)
        assert in_flight_of(provider) == payout.amount_micro  # nothing moved
        second = file_of(people)
        (line,) = second.lines.all()
        assert (line.payout_id, line.n, line.end_to_end_id) == (payout.pk, 2, f"{payout.pk.hex}-2")
        bank.send(second)
        (report,) = bank.mail("pain.002")
        take_in(report, people[0])
        payout.refresh_from_db()
        payout_cancel(payout=payout, reason="the account is closed", now=MONDAY, actor=people[0])
        bank.to("2026-12-08")
        (statement,) = bank.mail("camt.053")
        assert take_in(statement, people[0]).outcome == {"settled": 1}
    other.refresh_from_db()
    assert (payout.status, other.status) == ("cancelled", "settled")
    assert payable_of(provider) == 60_000_000
    states = BankLine.objects.order_by("n", "state").values_list("n", "state")
    assert list(states) == [(1, "rejected"), (1, "settled"), (2, "rejected")]
    assert BankFile.objects.count() == 2


def test_a_silent_bank_and_a_statement_with_a_hole(people: tuple[User, User], provider: Party, customer: Party) -> None:
    """No answer changes nothing; a statement from which a booking was left out does not add up and is refused."""
    rate(*people)
    payout = released(provider, customer, 60_000_000, people)
    with mock_bank("2026-12-07") as bank:
        bank.behave("statement-gap")
        bank.send(file_of(people))
        bank.to("2026-12-08")
        (statement,) = bank.mail("camt.053")
        with pytest.raises(Exception, match="entry is missing or too many") as refusal:
            take_in(statement, people[0])
    assert "file" in refusal.value.fields  # type: ignore[attr-defined]
    payout.refresh_from_db()
    assert payout.status == "submitted" and not BankEntry.objects.exists()


def test_money_that_is_nobodys_waits_in_suspense(people: tuple[User, User], provider: Party, customer: Party) -> None:
    with mock_bank("2026-12-07") as bank:
        bank.credit(500_00, "a gift")
        bank.to("2026-12-08")
        (statement,) = bank.mail("camt.053")
        assert take_in(statement, people[0]).outcome == {"suspense": 1}
        assert take_in(statement, people[1]).outcome == {"suspense": 1}
    entry = BankEntry.objects.get()
    assert (entry.state, entry.side, entry.amount_cents, entry.counterparty) == (
        "suspense",
        "credit",
        500_00,
        "Somebody",
    )
    assert "a gift" in entry.text and house_balance("bank", "EUR") == 0


@pytest.mark.parametrize(("day", "paid_on"), [("2026-04-06", "2026-04-07"), ("2026-12-07", "2026-12-07")])
def test_a_bank_holiday_moves_a_bank_payout_to_the_next_business_day(
    people: tuple[User, User], provider: Party, customer: Party, day: str, paid_on: str
) -> None:
    """Easter Monday 2026: wallets are paid, banks are not."""
    at = MONDAY.fromisoformat(f"{day}T16:30:00+00:00")
    bank_account(provider, now=at)
    owed(provider, customer, 30_000_000, now=at)
    rate(*people, now=at)
    payouts_run(as_of=at.date(), now=at)
    assert Payout.objects.exists() is (day == paid_on)
    if day != paid_on:
        tuesday = at + timedelta(days=1)
        payouts_run(as_of=tuesday.date(), now=tuesday)
        assert not Payout.objects.exists()  # Monday's rate is over 24 hours old by now
        rate(*people, now=tuesday)
        payouts_run(as_of=tuesday.date(), now=tuesday)
    payout = Payout.objects.get()
    assert str(payout.created_at.date()) == paid_on
    assert str(payout.run.period_end) == day

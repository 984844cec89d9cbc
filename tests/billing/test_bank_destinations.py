"""A bank account becomes a destination: in the approved name, checked at once, under the rules of every destination."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from accounts.models import Notification, Party, User
from accounts.services import party_legal_name_set
from billing.models import Destination, Payout
from billing.selectors import next_payout_on, why_not_yet
from billing.selectors.payouts import minimum_micro
from billing.services import BankUnavailable, destination_bank_set, payout_cycle_set
from core.errors import Invalid
from tests.billing.bank import (
    IBAN,
    MONDAY,
    OTHER_IBAN,
    OUR_IBAN,
    bank_account,
    bank_settings,
    owed,
    planned,
    policies,
    rate,
)

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def account(settings: Any) -> None:
    bank_settings(settings)


def test_it_is_in_the_approved_name_cools_down_and_is_told(provider: Party) -> None:
    made = bank_account(provider)
    assert (made.rail, made.scheme, made.address, made.holder) == ("bank", "sepa", IBAN, "Ada Lovelace & Söhne")
    assert made.usable_from == MONDAY + timedelta(hours=72)
    (notice,) = Notification.objects.all()
    assert notice.kind == "destination_changed"
    assert "NL91 •••• 4300" in notice.body and IBAN not in notice.body
    assert "The new bank account can be used from" in " ".join(why_not_yet(provider, MONDAY))


def test_a_change_replaces_it_and_the_same_again_changes_nothing(provider: Party) -> None:
    first = bank_account(provider)
    assert bank_account(provider, f" {IBAN.lower()} ").pk == first.pk
    second = bank_account(provider, OTHER_IBAN)
    first.refresh_from_db()
    assert (first.state, second.state) == ("replaced", "active")
    # A new name on the same account is another destination: the bank compares the two.
    third = bank_account(provider, OTHER_IBAN, name="Ada Ltd")
    assert third.pk != second.pk and third.holder == "Ada Ltd"


@pytest.mark.parametrize(
    ("iban", "scheme", "name", "field"),
    [
        ("NL91ABNA0417164301", "sepa", "Ada", "account"),
        ("GB82WEST12345698765432", "sepa", "Ada", "account"),
        (OUR_IBAN, "sepa", "Ada", "account"),
        (IBAN, "nacha", "Ada", "scheme"),
        (IBAN, "sepa", "", "holder"),
        (IBAN, "sepa", "!!", "holder"),
    ],
)
def test_what_cannot_be_paid_is_refused_when_it_is_entered(
    provider: Party, iban: str, scheme: str, name: str, field: str
) -> None:
    party_legal_name_set(party=provider, name=name)
    with pytest.raises(Invalid) as refusal:
        destination_bank_set(party=provider, account=iban, scheme=scheme, now=MONDAY)
    assert list(refusal.value.fields) == [field]
    assert not Destination.objects.exists() and not Notification.objects.exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [("BANK_SEPA_IBAN", ""), ("BANK_SEPA_IBAN", "DE1"), ("BANK_SEPA_BIC", "X"), ("BANK_SEPA_HOLDER", "")],
)
def test_without_an_account_of_ours_nobody_is_paid_by_bank(
    settings: Any, provider: Party, name: str, value: str
) -> None:
    setattr(settings, name, value)
    with pytest.raises(BankUnavailable, match=name):
        bank_account(provider)
    assert not Destination.objects.exists()


def test_pay_day_and_minimum_are_the_banks(provider: Party, olga: User) -> None:
    policies()
    good_friday = MONDAY.replace(year=2026, month=4, day=3)
    assert str(next_payout_on(provider, good_friday)) == "2026-04-06"
    bank_account(provider, now=good_friday)
    assert str(next_payout_on(provider, good_friday)) == "2026-04-07"
    easter_monday = good_friday + timedelta(days=3)
    assert str(next_payout_on(provider, easter_monday)) == "2026-04-07"
    payout_cycle_set(party=provider, kind="monthly", now=good_friday)
    labour_day = good_friday.replace(month=4, day=28)  # 1 May 2026 is a Friday, and banks are closed
    assert str(next_payout_on(provider, labour_day)) == "2026-05-04"
    assert minimum_micro("monthly", MONDAY, rail="bank") == 25_000_000 > minimum_micro("monthly", MONDAY)


def test_a_change_of_destination_touches_no_open_payout(
    provider: Party, customer: Party, olga: User, otto: User
) -> None:
    policies()
    bank_account(provider)
    owed(provider, customer, 30_000_000)
    rate(olga, otto)
    planned()
    bank_account(provider, OTHER_IBAN)
    payout = Payout.objects.get()
    assert (payout.address, payout.destination.address, payout.destination.state) == (IBAN, IBAN, "replaced")

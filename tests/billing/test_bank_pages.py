"""Bank payouts on the pages: the provider's choice, and the operator's verbs, each through its service."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from accounts.models import Party, User
from accounts.selectors import party_of
from billing.models import BankDecision, BankEntry, BankFile, BankMessage, Destination, Disclosure, EurRate, Payout
from billing.selectors import money_waiting
from core import clock
from tests.billing.bank import (
    IBAN,
    MONDAY,
    bank_account,
    bank_settings,
    owed,
    planned,
    policies,
    rate,
    released,
    take_in,
)
from tests.billing.bank_files import Entry, statement
from tests.factories.cast import person, reauthenticated
from tests.factories.providers import provider_make

pytestmark = pytest.mark.django_db
SignedIn = Callable[[User], Client]
EARNINGS, BANK = "/provider/earnings/", "/provider/earnings/bank/"
SHOWN = "NL91 •••• 4300"
People = tuple[User, User]


@pytest.fixture(autouse=True)
def monday() -> Iterator[None]:
    """The pages ask for the time; the rest of these tests gives it."""
    with time_machine.travel(MONDAY, tick=False):
        yield


@pytest.fixture
def people(settings: Any, olga: User, otto: User) -> People:
    bank_settings(settings)
    policies()
    return olga, otto


def verb(model: str, name: str, subject: Any = None) -> str:
    route = f"admin:billing_{model}_{'verb' if subject else 'list_verb'}"
    return reverse(route, args=[subject.pk, name] if subject else [name])


def done(client: Client, url: str, data: dict[str, Any] | None = None) -> None:
    answer = client.post(url, data or {})
    assert answer.status_code == 302, answer.context["form"].errors


# -- The provider ------------------------------------------------------------------------------------------------------


def test_a_provider_chooses_a_bank_account_in_the_approved_name(people: People, ada: User, signed_in: SignedIn) -> None:
    provider_make(ada, reviewer=people[0])
    client = reauthenticated(signed_in(ada), ada)
    page = client.get(EARNINGS).content.decode()
    assert "Engines Ltd" in page and "European Central Bank" in page
    answer = client.post(BANK, {"account": "NL91ABNA0417164301"})
    assert answer.status_code == 400 and "Invalid checksum digits" in answer.content.decode()
    assert not Destination.objects.exists()
    assert client.get(BANK).status_code == 405
    answer = client.post(BANK, {"account": "nl91 abna 0417 1643 00", "holder": "Eve"}, follow=True)
    page = answer.content.decode()
    assert answer.status_code == 200 and SHOWN in page and IBAN not in page
    assert (Destination.objects.get().holder, Destination.objects.get().address) == ("Engines Ltd", IBAN)


def test_without_an_account_of_ours_the_choice_is_not_offered(
    people: People, ada: User, signed_in: SignedIn, settings: Any
) -> None:
    provider_make(ada, reviewer=people[0])
    settings.BANK_SEPA_IBAN = ""
    client = reauthenticated(signed_in(ada), ada)
    assert "European Central Bank" not in client.get(EARNINGS).content.decode()
    assert client.post(BANK, {"account": IBAN}).status_code == 400
    assert not Destination.objects.exists()


def test_the_history_shows_euros_reference_and_the_expected_day(
    people: People, ada: User, ravi: User, signed_in: SignedIn
) -> None:
    provider_make(ada, reviewer=people[0])
    rate(*people)
    payout = released(party_of(ada), party_of(ravi), 60_000_000, people)
    client, operator, second = signed_in(ada), signed_in(people[0]), signed_in(people[1])
    done(operator, verb("bankfile", "make"), {"scheme": "sepa"})
    done(second, verb("bankfile", "approve", BankFile.objects.get()))
    page = client.get(EARNINGS).content.decode()
    for words in ("51.01 EUR", SHOWN, payout.pk.hex, "expected on"):
        assert words in page
    (row,) = client.get("/api/v1/billing/payouts").json()["payouts"]
    assert (row["rail"], row["amount_cents"], row["currency"], row["address"]) == ("bank", 5101, "EUR", SHOWN)
    assert row["reference"] == payout.pk.hex


# -- The operator ------------------------------------------------------------------------------------------------------


def test_a_rate_is_entered_by_one_and_confirmed_by_another(people: People, signed_in: SignedIn) -> None:
    operator, second = signed_in(people[0]), signed_in(people[1])
    at = clock.now() - timedelta(hours=2)
    wish = {
        "reference": "1.1702",
        "source": "ECB",
        "published_at_0": at.date().isoformat(),
        "published_at_1": at.strftime("%H:%M:%S"),
    }
    assert "Enter a euro rate" in operator.get(reverse("admin:billing_eurrate_changelist")).content.decode()
    refused = operator.post(verb("eurrate", "enter"), {**wish, "reference": "1,1702"})
    assert "reference" in refused.context["form"].errors and not EurRate.objects.exists()
    done(operator, verb("eurrate", "enter"), wish)
    entered = EurRate.objects.get()
    assert "somebody else" in operator.post(verb("eurrate", "confirm", entered)).content.decode()
    done(second, verb("eurrate", "confirm", entered))
    entered.refresh_from_db()
    assert entered.confirmed_by == people[1]


def test_from_release_to_suspense_by_hand(
    people: People, provider: Party, customer: Party, signed_in: SignedIn
) -> None:
    rate(*people)
    released(provider, customer, 60_000_000, people)
    operator, second = signed_in(people[0]), signed_in(people[1])
    done(operator, verb("bankfile", "make"), {"scheme": "sepa"})
    file = BankFile.objects.get()
    assert "second person" in operator.post(verb("bankfile", "fetch", file)).content.decode()
    done(second, verb("bankfile", "approve", file))
    assert operator.get(verb("bankfile", "fetch", file)).status_code == 200 and not Disclosure.objects.exists()
    got = [operator.post(verb("bankfile", "fetch", file)) for _ in range(2)]
    assert {answer.content for answer in got} == {bytes(file.data)}
    assert f"{file.message_id}.xml" in got[0]["Content-Disposition"] and "no-store" in got[0]["Cache-Control"]
    assert Disclosure.objects.filter(what="file", actor=people[0]).count() == 2

    line = file.lines.get()
    data = statement(Entry(-line.amount_cents, name="=cmd()"))
    for bad in (b"<!DOCTYPE a><a/>", b"", statement(Entry(-1), missing=1)):
        upload = SimpleUploadedFile("a.xml", bad)
        answer = operator.post(verb("bankmessage", "import"), {"scheme": "sepa", "file": upload})
        assert "file" in answer.context["form"].errors
    assert not BankMessage.objects.exists()
    upload = SimpleUploadedFile("a.xml", data)
    answer = operator.post(verb("bankmessage", "import"), {"scheme": "sepa", "file": upload})
    assert "suspense 1" in answer.content.decode()
    entry = BankEntry.objects.get()
    assert "=cmd()" in operator.get(reverse("admin:billing_bankentry_changelist")).content.decode()

    wrong = operator.post(verb("bankentry", "decide", entry), {"verdict": "settled", "line": "x", "reason": "r"})
    assert "line" in wrong.context["form"].errors
    wish = {"verdict": "settled", "line": line.end_to_end_id, "reason": "the paper statement has it"}
    done(operator, verb("bankentry", "decide", entry), wish)
    decision = BankDecision.objects.get()
    assert "somebody else" in operator.post(verb("bankdecision", "confirm", decision)).content.decode()
    done(second, verb("bankdecision", "confirm", decision))
    assert Payout.objects.get().status == "settled"
    message = BankMessage.objects.get()
    assert operator.post(verb("bankmessage", "fetch", message)).content == data
    for model in (
        "bankfile",
        "bankline",
        "bankmessage",
        "bankentry",
        "bankdecision",
        "eurrate",
        "disclosure",
        "payout",
    ):
        assert operator.get(reverse(f"admin:billing_{model}_changelist")).status_code == 200
    for subject in (file, line, message, entry, decision, Payout.objects.get(), EurRate.objects.get()):
        assert operator.get(
            reverse(f"admin:{subject._meta.app_label}_{subject._meta.model_name}_change", args=[subject.pk])
        )


def test_an_account_number_is_masked_and_who_looks_is_written_down(
    people: People, provider: Party, customer: Party, signed_in: SignedIn
) -> None:
    made = bank_account(provider)
    owed(provider, customer, 60_000_000)
    rate(*people)
    planned()
    operator = signed_in(people[0])
    pages = [
        reverse("admin:billing_destination_changelist"),
        reverse("admin:billing_destination_change", args=[made.pk]),
        reverse("admin:billing_payout_changelist"),
        reverse("admin:billing_payout_change", args=[Payout.objects.get().pk]),
        reverse("admin:billing_payoutrun_change", args=[Payout.objects.get().run_id]),
    ]
    for page in pages:
        text = operator.get(page).content.decode()
        assert SHOWN in text and IBAN not in text, page
    # A part of a number finds nobody: that would be a way to read it.
    assert SHOWN not in operator.get(pages[0], {"q": "0417164"}).content.decode()
    assert SHOWN in operator.get(pages[0], {"q": IBAN}).content.decode()
    assert not Disclosure.objects.exists()
    assert IBAN in operator.post(verb("destination", "show", made)).content.decode()
    row = Disclosure.objects.get()
    assert (row.what, row.subject_id, row.actor) == ("destination", made.pk, people[0])


@pytest.mark.parametrize("who", ["ada", "eve", "clerk"])
def test_others_reach_none_of_it(
    people: People, provider: Party, request: pytest.FixtureRequest, signed_in: SignedIn, who: str
) -> None:
    made = bank_account(provider)
    client = signed_in(person("Clerk", is_staff=True) if who == "clerk" else request.getfixturevalue(who))
    urls = [
        verb("bankfile", "make"),
        verb("eurrate", "enter"),
        verb("bankmessage", "import"),
        verb("destination", "show", made),
        verb("bankfile", "no-such-verb"),
    ]
    for url in urls:
        for answer in (client.get(url), client.post(url, {"scheme": "sepa"})):
            assert answer.status_code in (302, 403), url
            assert IBAN not in answer.content.decode()
    assert not Disclosure.objects.exists() and not BankFile.objects.exists()


def test_what_waits_for_staff_is_on_the_first_page(
    people: People, provider: Party, customer: Party, signed_in: SignedIn
) -> None:
    bank_account(provider)
    owed(provider, customer, 60_000_000)
    planned()
    take_in(statement(Entry(-5)), people[0])
    waiting = money_waiting()
    assert (waiting.bank_suspense, waiting.bank_second, waiting.bank_rate) == (1, 0, 1)
    page = signed_in(people[0]).get("/admin/").content.decode()
    assert "Bank entries of nobody" in page and "Runs that wait for a euro rate" in page

"""The operator's pages of adjustments and of the audit trail, each verb through its service."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from accounts.models import Party, User
from billing.models import Adjustment, AuditEntry
from billing.selectors import balance_of
from tests.factories.billing import USDC
from tests.factories.cast import person

pytestmark = pytest.mark.django_db
SignedIn = Callable[[User], Client]
PROPOSE = "admin:billing_adjustment_list_verb"
VERB = "admin:billing_adjustment_verb"
AUDIT = "admin:billing_auditentry_changelist"


def wish(owner: Party, **changes: str) -> dict[str, str]:
    found = {
        "party": owner.handle,
        "kind": "customer",
        "amount": "12.5",
        "reason": "Read twice",
        "evidence": "ticket 4711",
    }
    return {**found, **changes}


def proposed(client: Client, owner: Party, **changes: str) -> Any:
    return client.post(reverse(PROPOSE, args=["propose"]), wish(owner, **changes))


def test_one_proposes_another_confirms(
    customer: Party, olga: User, otto: User, ravi: User, signed_in: SignedIn
) -> None:
    first, second = signed_in(olga), signed_in(otto)
    assert "Propose an adjustment" in first.get(reverse("admin:billing_adjustment_changelist")).content.decode()
    assert proposed(first, customer).status_code == 302
    row = Adjustment.objects.get()
    page = first.get(reverse("admin:billing_adjustment_change", args=[row.pk])).content.decode()
    assert "+12.50" in page and "ticket 4711" in page and "Balance after it" in page
    confirm = reverse(VERB, args=[row.pk, "confirm"])
    answer = first.post(confirm)
    assert answer.status_code == 200 and "somebody else has to confirm it" in answer.content.decode()
    assert balance_of(customer).balance_micro == 0
    assert second.post(confirm).status_code == 302
    assert balance_of(customer).balance_micro == 12_500_000
    done = first.get(reverse("admin:billing_adjustment_change", args=[row.pk])).content.decode()
    assert confirm not in done  # the button is gone
    history = signed_in(ravi).get("/billing/").content.decode()
    assert "Adjustment" in history and "Read twice" in history and "ticket 4711" not in history
    (told,) = signed_in(ravi).get("/api/v1/billing/history").json()["history"]
    assert (told["kind"], told["of"], told["amount_micro"]) == ("adjustment", "Read twice", 12_500_000)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"party": "nobody"}, "the handle of a party"),
        ({"amount": "1000.000001"}, "-1,000.00 to 1,000.00 USDC"),
        ({"amount": "1,5"}, "a decimal number with at most 6 decimals"),
        ({"amount": "0"}, "not 0"),
        ({"evidence": " "}, "This field is required"),
        ({"reason": ""}, "This field is required"),
        ({"kind": "treasury"}, "Select a valid choice"),
    ],
)
def test_a_bad_field_is_named_and_nothing_is_proposed(
    customer: Party, olga: User, signed_in: SignedIn, change: dict[str, str], words: str
) -> None:
    answer = proposed(signed_in(olga), customer, **change)
    assert answer.status_code == 200 and words in answer.content.decode()
    assert not Adjustment.objects.exists()


def test_a_refusal_wants_a_reason_and_shows_it(customer: Party, olga: User, otto: User, signed_in: SignedIn) -> None:
    proposed(signed_in(olga), customer)
    row, second = Adjustment.objects.get(), signed_in(otto)
    url = reverse(VERB, args=[row.pk, "refuse"])
    assert second.post(url, {"reason": ""}).status_code == 200
    assert second.post(url, {"reason": "Not this account"}).status_code == 302
    page = second.get(reverse("admin:billing_adjustment_change", args=[row.pk])).content.decode()
    assert "Not this account" in page and balance_of(customer).balance_micro == 0


def test_staff_without_the_right_see_and_do_nothing(customer: Party, olga: User, signed_in: SignedIn) -> None:
    proposed(signed_in(olga), customer)
    row = Adjustment.objects.get()
    clerk = signed_in(person("Clerk", is_staff=True))
    pages = [
        reverse("admin:billing_adjustment_changelist"),
        reverse(PROPOSE, args=["propose"]),
        reverse(VERB, args=[row.pk, "confirm"]),
        reverse(VERB, args=[row.pk, "refuse"]),
        reverse(AUDIT),
    ]
    assert [clerk.get(page).status_code for page in pages] == [403] * len(pages)
    assert clerk.post(reverse(VERB, args=[row.pk, "confirm"])).status_code == 403
    row.refresh_from_db()
    assert row.state == "proposed"


def test_the_trail_is_searched_by_who_whose_what_and_why(
    customer: Party, provider: Party, olga: User, otto: User, signed_in: SignedIn
) -> None:
    first, second = signed_in(olga), signed_in(otto)
    proposed(first, customer)
    proposed(first, provider, kind="provider_payable", amount="-2", reason="Clock was wrong")
    about = Adjustment.objects.get(amount_micro=-2 * USDC)
    second.post(reverse(VERB, args=[about.pk, "confirm"]))

    def found(**query: str) -> int:
        return len(first.get(reverse(AUDIT), query).context["cl"].result_list)

    assert found() == 3
    assert (found(q="otto@"), found(q=provider.handle), found(q=str(about.pk)), found(q="Clock")) == (1, 2, 2, 2)
    assert found(verb="adjustment_confirm") == 1
    entry = AuditEntry.objects.get(verb="adjustment_confirm")
    page = first.get(reverse("admin:billing_auditentry_change", args=[entry.pk])).content.decode()
    for words in (
        "otto@example.com",
        "Confirmed an adjustment",
        "balance: 0.00 USDC",
        "balance: -2.00 USDC",
    ):
        assert words in page
    assert reverse("admin:billing_adjustment_change", args=[about.pk]) in page


def test_the_trail_costs_no_query_per_line(
    customer: Party, olga: User, signed_in: SignedIn, django_assert_max_num_queries: Any
) -> None:
    client = signed_in(olga)
    for _ in range(3):
        proposed(client, customer)
    with django_assert_max_num_queries(60) as few:
        client.get(reverse(AUDIT))
    number = len(few)
    for _ in range(9):
        proposed(client, customer)
    with django_assert_max_num_queries(number):
        client.get(reverse(AUDIT))

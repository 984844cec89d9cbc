"""/billing/ and its API: one's own money, nobody else's."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest
from django.test import Client

from accounts.models import User
from accounts.selectors import party_of
from billing.models import Deposit, DepositIntent, Payout
from billing.services import (
    deposits_read,
    hold_place,
    payout_run_start,
    policies_demo_install,
    policy_set,
    receipt_issue,
)
from core import clock
from core.ids import uuid7
from tests.billing.chain.world import USDC, World
from tests.billing.payouts import next_monday, payable, run_on, wallet_for
from tests.factories.billing import earned, funded
from tests.factories.documents import deposited

pytestmark = pytest.mark.django_db

SignedIn = Callable[[User], Client]


def test_the_page_shows_balance_holds_and_history(signed_in: SignedIn, ravi: User, ada: User) -> None:
    funded(ravi, 40 * USDC)
    earned(ada, ravi, 1_500_000)
    hold_place(party=party_of(ravi), amount_micro=10 * USDC, source="rental:1", now=clock.now())
    page = signed_in(ravi).get("/billing/").content.decode()
    for part in ("28.50", "38.50", "10.00", "A running job", "-1.50", "+40.00", "GPU usage", "Deposit"):
        assert part in page


def test_the_history_is_paged(signed_in: SignedIn, ravi: User) -> None:
    for amount in range(1, 31):
        funded(ravi, amount * USDC)
    client = signed_in(ravi)
    first = client.get("/billing/")
    assert len(first.context["history"]) == 25
    second = client.get("/billing/" + first.context["next_url"])
    assert len(second.context["history"]) == 5 and second.context["next_url"] == ""
    assert client.get("/billing/?cursor=nonsense").status_code == 404


def test_a_deposit_from_form_to_credit(chain: World, signed_in: SignedIn, ravi: User, eve: User) -> None:
    client = signed_in(ravi)
    answer = client.post("/billing/deposits/", {"amount": "12.5"})
    intent = DepositIntent.objects.get()
    assert answer.status_code == 302 and intent.amount_micro == 12_500_000
    page = client.get(answer["Location"]).content.decode()
    assert "<svg" in page and "solana:" in page and intent.reference in page and "Nothing yet" in page
    chain.deposit(chain.customer(), 12_500_000, references=[intent.reference])
    chain.finalize()
    deposits_read(now=clock.now())
    assert "12.50 USDC" in client.get(f"/billing/deposits/{intent.pk}/status/").content.decode()
    stranger = signed_in(eve)
    for path in (f"/billing/deposits/{intent.pk}/", f"/billing/deposits/{intent.pk}/status/"):
        assert stranger.get(path).status_code == 404
    assert stranger.get(f"/api/v1/billing/deposits/{intent.pk}").status_code == 404
    found = client.get(f"/api/v1/billing/deposits/{intent.pk}").json()
    assert [row["amount_micro"] for row in found["deposits"]] == [12_500_000]


@pytest.mark.parametrize("amount", ["abc", "0", "-5", "0.0000001", "99999999999"])
def test_a_bad_amount_is_refused_beside_its_field(signed_in: SignedIn, ravi: User, amount: str) -> None:
    answer = signed_in(ravi).post("/billing/deposits/", {"amount": amount})
    assert answer.status_code == 400
    assert "amount" in answer.context["form"].errors
    assert not DepositIntent.objects.exists()


def test_the_api_tells_the_same(chain: World, signed_in: SignedIn, ravi: User) -> None:
    funded(ravi, 40 * USDC)
    client = signed_in(ravi)
    assert client.get("/api/v1/billing/balance").json() == {
        "balance_micro": 40 * USDC,
        "held_micro": 0,
        "available_micro": 40 * USDC,
    }
    history = client.get("/api/v1/billing/history").json()
    assert [row["amount_micro"] for row in history["history"]] == [40 * USDC] and history["next_cursor"] is None
    made = client.post("/api/v1/billing/deposits", {"amount_micro": 5 * USDC}, content_type="application/json")
    assert made.status_code == 201 and made.json()["link"].startswith("solana:")
    refused = client.post("/api/v1/billing/deposits", {"amount_micro": 0}, content_type="application/json")
    assert (refused.status_code, list(refused.json()["fields"])) == (400, ["amount"])
    payouts = client.get("/api/v1/billing/payouts").json()
    assert (
        payouts["payouts"] == []
        and "No payout destination is set: neither a wallet nor a bank account." in payouts["why_not_yet"]
    )


def test_two_staff_release_in_the_admin(
    chain: World, signed_in: SignedIn, ada: User, ravi: User, olga: User, eve: User
) -> None:
    policies_demo_install(now=clock.now())
    policy_set(name="automatic_release", value=0, valid_from=clock.now())
    wallet_for(party_of(ada))
    payable(party_of(ada), party_of(ravi), 5 * USDC)
    for run in run_on(next_monday(clock.now())):
        payout_run_start(run_id=run.pk, now=clock.now())
    payout = Payout.objects.get()
    eve.is_staff = True
    eve.save()
    eve.user_permissions.set(olga.user_permissions.all())
    steps = ((olga, "payoutrun", payout.run_id, "awaiting_release"), (eve, "payout", payout.pk, "ready"))
    for staff, model, chosen, status in steps:
        data = {"action": "approve", "_selected_action": str(chosen)}
        assert signed_in(staff).post(f"/admin/billing/{model}/", data).status_code == 302
        payout.refresh_from_db()
        assert payout.status == status


MODELS = (
    "account",
    "transfer",
    "hold",
    "deposit",
    "destination",
    "document",
    "payoutrun",
    "payout",
    "payoutswitch",
    "policyrow",
    "feerate",
    "destinationfreeze",
    "payouthold",
    "chainmatch",
)


@pytest.mark.parametrize("model", MODELS)
def test_the_admin_shows_money_and_changes_none(signed_in: SignedIn, olga: User, model: str) -> None:
    client = signed_in(olga)
    assert client.get(f"/admin/billing/{model}/").status_code == 200
    assert client.get(f"/admin/billing/{model}/add/").status_code == 403


def test_the_admin_shows_a_document_as_it_was_issued(signed_in: SignedIn, olga: User, ravi: User) -> None:
    receipt = receipt_issue(deposit=deposited(ravi, 5 * USDC, at=clock.now()), now=clock.now())
    client = signed_in(olga)
    assert receipt.label in client.get("/admin/billing/document/").content.decode()
    page = client.get(f"/admin/billing/document/{receipt.pk}/change/").content.decode()
    assert receipt.label in page and 'name="_save"' not in page
    assert client.post(f"/admin/billing/document/{receipt.pk}/delete/", {"post": "yes"}).status_code == 403


def test_one_more_deposit_costs_the_page_no_more_queries(
    signed_in: SignedIn, ravi: User, django_assert_max_num_queries: Callable[[int], object]
) -> None:
    client = signed_in(ravi)
    for _ in range(20):
        funded(ravi, USDC)
    client.get("/billing/")
    with django_assert_max_num_queries(17):  # type: ignore[attr-defined]
        client.get("/billing/")


def test_ids_of_nothing_are_not_found(signed_in: SignedIn, ravi: User) -> None:
    nothing: UUID = uuid7()
    assert signed_in(ravi).get(f"/billing/deposits/{nothing}/").status_code == 404
    assert not Deposit.objects.exists()

"""Paying in, taking back, claiming: the pages and the API around the services."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.test import Client
from solders.keypair import Keypair

from accounts.models import User
from accounts.selectors import party_of
from billing.models import DepositClaim, Destination, Payout
from billing.selectors import balance_of
from billing.services import deposit_intent_open, deposits_read, policies_demo_install
from core import clock
from core.ids import uuid7
from tests.billing.chain.world import USDC, World
from tests.billing.test_claims import WHY
from tests.factories.billing import funded
from tests.factories.cast import reauthenticated
from tests.factories.withdrawals import unlabelled, withdrawal_wallet, withdrawing

pytestmark = pytest.mark.django_db

SignedIn = Callable[[User], Client]


# -- The deposit's page ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("amounts", "words", "waits"),
    [
        ([], "Nothing yet", True),
        ([10 * USDC], "The missing 15.00 USDC may follow", True),
        ([10 * USDC, 15 * USDC], "It is on your balance", False),
        ([25 * USDC, 1], "More than you asked for", False),
    ],
)
def test_the_page_looks_again_until_all_of_it_is_there(
    chain: World, signed_in: SignedIn, ravi: User, amounts: list[int], words: str, waits: bool
) -> None:
    intent = deposit_intent_open(party=party_of(ravi), amount_micro=25 * USDC, now=clock.now())
    payer = chain.customer()
    for amount in amounts:
        chain.deposit(payer, amount, references=[intent.reference])
        chain.finalize()
    deposits_read(now=clock.now())
    client = signed_in(ravi)
    for path in (f"/billing/deposits/{intent.pk}/", f"/billing/deposits/{intent.pk}/status/"):
        page = client.get(path).content.decode()
        assert words in page
        assert ("hx-trigger" in page) is waits
        # Without a script the same is a click away.
        assert ("Look now" in page) is waits


# -- Withdrawals ----------------------------------------------------------------------------------------------------


def test_a_withdrawal_from_wallet_to_cancel(chain: World, signed_in: SignedIn, ravi: User) -> None:
    policies_demo_install(now=clock.now())
    funded(ravi, 30 * USDC)
    client, wallet = reauthenticated(signed_in(ravi), ravi), Keypair()
    assert "First prove the wallet" in client.get("/billing/withdrawals/").content.decode()
    asked = client.post("/billing/withdrawals/wallet/", {"address": str(wallet.pubkey())})
    text = asked.context["challenge"]
    assert "Purpose: withdrawal destination" in text
    proof = {"address": str(wallet.pubkey()), "signature": str(wallet.sign_message(text.encode()))}
    assert client.post("/billing/withdrawals/wallet/", proof).status_code == 302
    page = client.get("/billing/withdrawals/").content.decode()
    (key,) = re.findall(r'name="request_key" value="([0-9a-f-]{36})"', page)
    for _ in range(2):  # a double click is one withdrawal
        assert client.post("/billing/withdrawals/", {"amount": "12.5", "request_key": key}).status_code == 302
    payout = Payout.objects.get()
    assert (payout.amount_micro, str(payout.request_key)) == (12_490_000, key)
    page = client.get("/billing/withdrawals/").content.decode()
    for part in ("12.49", "Waiting for release", "Cancel the withdrawal"):
        assert part in page
    assert "Withdrawal" in client.get("/billing/").content.decode()
    assert client.post(f"/billing/withdrawals/{payout.pk}/cancel/").status_code == 302
    assert balance_of(party_of(ravi)).balance_micro == 30 * USDC
    page = client.get("/billing/withdrawals/").content.decode()
    assert "Cancelled" in page and "Cancel the withdrawal" not in page


@pytest.mark.parametrize("amount", ["", "abc", "0", "-5", "4.99", "31", "0.0000001"])
def test_a_bad_amount_is_said_beside_its_field(signed_in: SignedIn, ravi: User, amount: str) -> None:
    withdrawal_wallet(funded(ravi, 30 * USDC))
    answer = signed_in(ravi).post("/billing/withdrawals/", {"amount": amount, "request_key": str(uuid7())})
    assert answer.status_code == 400
    assert "amount" in answer.context["form"].errors
    assert not Payout.objects.exists()


def test_a_wrong_signature_makes_no_wallet(chain: World, signed_in: SignedIn, ravi: User) -> None:
    client, wallet = reauthenticated(signed_in(ravi), ravi), Keypair()
    text = client.post("/billing/withdrawals/wallet/", {"address": str(wallet.pubkey())}).context["challenge"]
    wrong = {"address": str(wallet.pubkey()), "signature": str(Keypair().sign_message(text.encode()))}
    answer = client.post("/billing/withdrawals/wallet/", wrong)
    assert answer.status_code == 400 and "signature" in answer.context["signature"].errors
    assert not Destination.objects.exists()


def test_the_api_withdraws_lists_and_cancels(signed_in: SignedIn, ravi: User, eve: User) -> None:
    withdrawal_wallet(funded(ravi, 30 * USDC))
    client, key = signed_in(ravi), str(uuid7())
    path, body = "/api/v1/billing/withdrawals", {"amount_micro": 20 * USDC, "request_key": key}
    made = [client.post(path, body, content_type="application/json") for _ in range(2)]
    assert [answer.status_code for answer in made] == [201, 201]
    assert made[0].json()["id"] == made[1].json()["id"]
    refused = client.post(path, {"amount_micro": 1, "request_key": str(uuid7())}, content_type="application/json")
    assert (refused.status_code, list(refused.json()["fields"])) == (400, ["amount"])
    too_much = {"amount_micro": 11 * USDC, "request_key": str(uuid7())}
    refused = client.post(path, too_much, content_type="application/json")
    assert (refused.status_code, refused.json()["code"]) == (402, "insufficient_funds")
    found = client.get(path).json()
    assert (found["available_micro"], found["minimum_micro"], found["fee_micro"]) == (10 * USDC, 5 * USDC, USDC // 2)
    assert [row["status"] for row in found["withdrawals"]] == ["awaiting_release"]
    cancel = f"{path}/{made[0].json()['id']}/cancel"
    assert signed_in(eve).post(cancel).status_code == 404
    assert client.post(cancel).json()["status"] == "cancelled"
    assert client.get(path).json()["available_micro"] == 30 * USDC


def test_withdrawals_are_no_payouts_of_earnings(signed_in: SignedIn, ravi: User) -> None:
    withdrawal_wallet(funded(ravi, 30 * USDC))
    withdrawing(ravi, 20 * USDC)
    payouts = signed_in(ravi).get("/api/v1/billing/payouts").json()
    assert (payouts["payouts"], payouts["in_flight_micro"]) == ([], 0)


# -- Claims ---------------------------------------------------------------------------------------------------------


def test_a_claim_from_text_to_balance(chain: World, signed_in: SignedIn, ravi: User, eve: User) -> None:
    wallet = Keypair()
    deposit = unlabelled(7 * USDC, sender=wallet)
    client = signed_in(ravi)
    asked = client.post("/billing/claims/wallet/", {"transaction": deposit.signature, "address": str(wallet.pubkey())})
    claim = asked.context["claim"]
    assert claim.text.splitlines()[0] in asked.content.decode()
    proof = {"proof": str(wallet.sign_message(claim.text.encode()))}
    assert signed_in(eve).post(f"/billing/claims/{claim.pk}/prove/", proof).status_code == 404
    assert client.post(f"/billing/claims/{claim.pk}/prove/", proof).status_code == 302
    assert balance_of(party_of(ravi)).balance_micro == 7 * USDC
    assert "Credited" in client.get("/billing/claims/").content.decode()


def test_a_wrong_proof_says_so_and_the_text_is_used_up(chain: World, signed_in: SignedIn, ravi: User) -> None:
    wallet = Keypair()
    deposit = unlabelled(7 * USDC, sender=wallet)
    client = signed_in(ravi)
    form = {"transaction": deposit.signature, "address": str(wallet.pubkey())}
    claim = client.post("/billing/claims/wallet/", form).context["claim"]
    answer = client.post(f"/billing/claims/{claim.pk}/prove/", {"proof": "1" * 64})
    assert answer.status_code == 400
    assert "The text is used up" in answer.content.decode() and "proof" in answer.context["proof"].errors


def test_evidence_from_the_page_to_two_staff(signed_in: SignedIn, ravi: User, olga: User) -> None:
    deposit = unlabelled(7 * USDC)
    client = signed_in(ravi)
    form = {"transaction": deposit.signature, "evidence": WHY}
    assert client.post("/billing/claims/evidence/", form).status_code == 302
    assert client.post("/billing/claims/evidence/", form | {"evidence": "no"}).status_code == 400
    claim = DepositClaim.objects.get()
    assert "evidence" in client.get("/billing/claims/").content.decode()
    staff, page = signed_in(olga), f"/admin/billing/depositclaim/{claim.pk}/"
    shown = staff.get(f"{page}change/").content.decode()
    assert "7.00 USDC" in shown and WHY in shown and "do/propose/" in shown and "do/confirm/" not in shown
    assert staff.post(f"{page}do/propose/", {"reason": "The exchange says so."}).status_code == 302
    shown = staff.get(f"{page}change/").content.decode()
    assert "do/confirm/" in shown and "do/propose/" not in shown
    refused = staff.post(f"{page}do/confirm/", {})
    assert refused.status_code == 200 and "somebody else has to confirm" in refused.content.decode()
    today = staff.get("/admin/").content.decode()
    assert "Claims on deposits" in today
    claim.refresh_from_db()
    assert claim.state == "open"


@pytest.mark.parametrize("model", ["depositclaim", "foreignpayment"])
def test_the_admin_shows_and_changes_nothing(signed_in: SignedIn, olga: User, model: str) -> None:
    client = signed_in(olga)
    assert client.get(f"/admin/billing/{model}/").status_code == 200
    assert client.get(f"/admin/billing/{model}/add/").status_code == 403


def test_the_api_claims(chain: World, signed_in: SignedIn, ravi: User) -> None:
    wallet = Keypair()
    deposit = unlabelled(7 * USDC, sender=wallet)
    client, path = signed_in(ravi), "/api/v1/billing/claims"
    body = {"transaction": deposit.signature, "address": str(wallet.pubkey())}
    claim = client.post(path, body, content_type="application/json").json()
    proof = {"proof": str(wallet.sign_message(claim["text"].encode()))}
    answer = client.post(f"{path}/{claim['id']}/proof", proof, content_type="application/json")
    assert (answer.status_code, answer.json()["amount_micro"]) == (200, 7 * USDC)
    again = client.post(f"{path}/{claim['id']}/proof", proof, content_type="application/json")
    assert again.status_code == 409
    other = {"transaction": str(Keypair().sign_message(b"x")), "evidence": WHY}
    assert client.post(path, other, content_type="application/json").json()["kind"] == "evidence"
    refused = client.post(path, {"transaction": "nonsense", "address": "x"}, content_type="application/json")
    assert (refused.status_code, list(refused.json()["fields"])) == (400, ["transaction"])
    assert {row["state"] for row in client.get(path).json()} == {"credited", "open"}

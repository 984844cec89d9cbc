"""A deposit of nobody becomes somebody's by proof alone, once; a wrong claim moves nothing and tells nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from solders.keypair import Keypair

from accounts.models import Notification, Party, User
from billing.models import Deposit, DepositClaim, Transfer
from billing.selectors import balance_of, customer_history
from billing.selectors.balances import house_balance
from billing.services import (
    claim_confirm,
    claim_decline,
    claim_evidence_open,
    claim_propose,
    claim_wallet_open,
    claim_wallet_prove,
    receipt_issue,
)
from core import clock
from core.errors import Conflict, Denied, DomainError, Invalid, NotFound
from tests.billing.chain.world import USDC, World
from tests.factories.withdrawals import unlabelled

pytestmark = pytest.mark.django_db

WHY = "Exchange Kraken, withdrawal 4711, 12:03 UTC, 7 USDC."
WEEK = timedelta(days=7)


def claimed(party: Party, signature: str, wallet: Keypair, *, signer: Keypair | None = None) -> Deposit:
    """A claim from text to proof."""
    address = str(wallet.pubkey())
    claim = claim_wallet_open(party=party, signature=signature, address=address, now=clock.now())
    proof = str((signer or wallet).sign_message(claim.text.encode()))
    return claim_wallet_prove(party=party, claim_id=claim.pk, proof=proof, now=clock.now())


def nothing_moved(amount: int) -> None:
    assert house_balance("suspense") == amount
    assert not Transfer.objects.filter(kind="deposit_claimed").exists()


# -- By the wallet's signature --------------------------------------------------------------------------------------


def test_the_sending_wallet_gets_it_at_once(chain: World, customer: Party) -> None:
    wallet = Keypair()
    deposit = unlabelled(7 * USDC, sender=wallet)
    found = claimed(customer, deposit.signature, wallet)
    assert (found.pk, found.state, found.party) == (deposit.pk, "credited", customer)
    assert (balance_of(customer).balance_micro, house_balance("suspense")) == (7 * USDC, 0)
    assert Notification.objects.get().kind == "deposit_credited"
    (row,), _ = customer_history(customer)
    assert (row.kind, row.amount_micro, row.words) == ("deposit_claimed", 7 * USDC, "Deposit")
    receipt = receipt_issue(deposit=Deposit.objects.get(), now=clock.now())
    assert receipt.total_micro == 7 * USDC


def test_the_text_says_who_claims_what_and_is_used_up_by_the_first_answer(chain: World, customer: Party) -> None:
    wallet = Keypair()
    deposit = unlabelled(7 * USDC, sender=wallet)
    address = str(wallet.pubkey())
    claim = claim_wallet_open(party=customer, signature=deposit.signature, address=address, now=clock.now())
    for part in ("Purpose: deposit claim", str(customer.pk), deposit.signature, address, chain.facts["genesis_hash"]):
        assert part in claim.text
    good = str(wallet.sign_message(claim.text.encode()))
    with pytest.raises(Invalid) as refusal:
        claim_wallet_prove(party=customer, claim_id=claim.pk, proof=good[:-1] + "1", now=clock.now())
    assert list(refusal.value.fields) == ["proof"]
    with pytest.raises(Conflict):
        claim_wallet_prove(party=customer, claim_id=claim.pk, proof=good, now=clock.now())
    nothing_moved(7 * USDC)


def test_a_text_that_has_expired_or_is_anothers_proves_nothing(chain: World, customer: Party, provider: Party) -> None:
    wallet = Keypair()
    deposit = unlabelled(7 * USDC, sender=wallet)
    claim = claim_wallet_open(
        party=customer, signature=deposit.signature, address=str(wallet.pubkey()), now=clock.now()
    )
    proof = str(wallet.sign_message(claim.text.encode()))
    with pytest.raises(NotFound):
        claim_wallet_prove(party=provider, claim_id=claim.pk, proof=proof, now=clock.now())
    with pytest.raises(Conflict):
        claim_wallet_prove(
            party=customer, claim_id=claim.pk, proof=proof, now=clock.now() + timedelta(minutes=10, seconds=1)
        )
    nothing_moved(7 * USDC)


def wrong_claims(customer: Party, provider: Party) -> dict[str, Callable[[], object]]:
    """Claims with a good signature that are wrong all the same: each must be answered with the same words."""
    mine, theirs = Keypair(), Keypair()
    waits = unlabelled(7 * USDC, sender=theirs)
    several = unlabelled(USDC, sender=None)
    gone = unlabelled(2 * USDC, sender=theirs)
    claimed(provider, gone.signature, theirs)
    nowhere = str(Keypair().sign_message(b"nowhere"))
    return {
        "no such transaction": lambda: claimed(customer, nowhere, mine),
        "waits, but came from another wallet": lambda: claimed(customer, waits.signature, mine),
        "waits, but came from several wallets": lambda: claimed(customer, several.signature, mine),
        "was claimed by who sent it": lambda: claimed(customer, gone.signature, mine),
        "was claimed, and the wallet is right": lambda: claimed(customer, gone.signature, theirs),
    }


def test_a_wrong_claim_moves_nothing_and_tells_nothing(chain: World, customer: Party, provider: Party) -> None:
    answers = {}
    for name, claim in wrong_claims(customer, provider).items():
        with pytest.raises(DomainError) as refusal:
            claim()
        answers[name] = (type(refusal.value), refusal.value.code, refusal.value.message, str(refusal.value.fields))
    assert len(set(answers.values())) == 1, answers
    assert balance_of(customer).balance_micro == 0
    assert house_balance("suspense") == 8 * USDC
    assert Notification.objects.filter(user__memberships__party=customer).count() == 0


@pytest.mark.parametrize("field", ["transaction", "address"])
def test_what_is_no_transaction_or_no_wallet_is_refused_by_name(chain: World, customer: Party, field: str) -> None:
    good = {"signature": str(Keypair().sign_message(b"x")), "address": str(Keypair().pubkey())}
    for wrong in ("", "abc", "0OIl", chain.facts["vault_owner"] if field == "address" else "1" * 20):
        values = good | {"signature" if field == "transaction" else "address": wrong}
        with pytest.raises(Invalid) as refusal:
            claim_wallet_open(party=customer, now=clock.now(), **values)
        assert list(refusal.value.fields) == [field]
    assert not DepositClaim.objects.exists()


def test_who_tries_foreign_transactions_is_stopped(chain: World, customer: Party) -> None:
    for _ in range(20):
        with pytest.raises(Conflict, match="waits for its owner"):
            claimed(customer, str(Keypair().sign_message(b"x")), Keypair())
    with pytest.raises(Conflict, match="tomorrow"):
        claimed(customer, str(Keypair().sign_message(b"x")), Keypair())


# -- By evidence ----------------------------------------------------------------------------------------------------


def with_evidence(party: Party, signature: str, now: datetime | None = None) -> DepositClaim:
    return claim_evidence_open(party=party, signature=signature, evidence=WHY, now=now or clock.now())


@pytest.fixture
def second(eve: User, olga: User) -> User:
    eve.is_staff = True
    eve.save()
    eve.user_permissions.set(olga.user_permissions.all())
    return User.objects.get(pk=eve.pk)


def test_two_people_decide_after_a_week(customer: Party, olga: User, second: User) -> None:
    deposit, now = unlabelled(7 * USDC), clock.now()
    claim = with_evidence(customer, deposit.signature, now)
    with pytest.raises(Conflict, match="Nobody has proposed"):
        claim_confirm(claim=claim, actor=second, now=now + WEEK)
    claim_propose(claim=claim, reason="The exchange confirms it.", actor=olga, now=now)
    with pytest.raises(Conflict, match="already"):
        claim_propose(claim=claim, reason="me too", actor=second, now=now)
    with pytest.raises(Denied, match="somebody else"):
        claim_confirm(claim=claim, actor=olga, now=now + WEEK)
    with pytest.raises(Conflict, match="Others may claim it until"):
        claim_confirm(claim=claim, actor=second, now=now + WEEK - timedelta(seconds=1))
    nothing_moved(7 * USDC)
    claim_confirm(claim=claim, actor=second, now=now + WEEK)
    assert (balance_of(customer).balance_micro, house_balance("suspense")) == (7 * USDC, 0)
    with pytest.raises(Conflict):
        claim_confirm(claim=claim, actor=second, now=now + WEEK)


def test_rivals_are_declined_in_the_same_words(customer: Party, provider: Party, olga: User, second: User) -> None:
    deposit, now = unlabelled(7 * USDC), clock.now()
    claim, rival = (with_evidence(party, deposit.signature, now) for party in (customer, provider))
    for each in (claim, rival):
        claim_propose(claim=each, reason="It looks right.", actor=olga, now=now)
    claim_confirm(claim=claim, actor=second, now=now + WEEK)
    rival.refresh_from_db()
    assert rival.state == "declined"
    with pytest.raises(Conflict):
        claim_confirm(claim=rival, actor=second, now=now + WEEK)
    assert (balance_of(customer).balance_micro, balance_of(provider).balance_micro) == (7 * USDC, 0)
    assert [row.kind for row in Notification.objects.filter(user__memberships__party=provider)] == ["claim_declined"]


def test_the_wallet_comes_before_evidence(chain: World, customer: Party, provider: Party, olga: User) -> None:
    wallet = Keypair()
    deposit, now = unlabelled(7 * USDC, sender=wallet), clock.now()
    claim = with_evidence(provider, deposit.signature, now)
    claim_propose(claim=claim, reason="It looks right.", actor=olga, now=now)
    claimed(customer, deposit.signature, wallet)
    claim.refresh_from_db()
    assert (claim.state, balance_of(customer).balance_micro) == ("declined", 7 * USDC)


def test_one_person_declines(customer: Party, olga: User) -> None:
    deposit = unlabelled(7 * USDC)
    claim = with_evidence(customer, deposit.signature)
    with pytest.raises(Invalid):
        claim_decline(claim=claim, reason=" ", actor=olga, now=clock.now())
    claim_decline(claim=claim, reason="another exchange", actor=olga, now=clock.now())
    assert Notification.objects.get().kind == "claim_declined"
    assert with_evidence(customer, deposit.signature).state == "open"  # better evidence is welcome
    nothing_moved(7 * USDC)


def test_nobody_decides_about_their_own_claim_and_nobody_without_the_right(
    customer: Party, ravi: User, eve: User, olga: User
) -> None:
    claim = with_evidence(customer, unlabelled(7 * USDC).signature)
    ravi.is_staff = True
    ravi.save()
    ravi.user_permissions.set(olga.user_permissions.all())
    for actor in (User.objects.get(pk=ravi.pk), eve):
        for act in (claim_propose, claim_decline):
            with pytest.raises(Denied):
                act(claim=claim, reason="because", actor=actor, now=clock.now())
        with pytest.raises(Denied):
            claim_confirm(claim=claim, actor=actor, now=clock.now() + WEEK)
    nothing_moved(7 * USDC)


def test_a_claim_on_nothing_is_taken_like_any_other_and_leads_nowhere(customer: Party, olga: User) -> None:
    signature = str(Keypair().sign_message(b"nothing"))
    claim = with_evidence(customer, signature)
    assert claim.state == "open"
    with pytest.raises(Conflict, match="No deposit in suspense"):
        claim_propose(claim=claim, reason="because", actor=olga, now=clock.now())


def test_claims_by_evidence_are_bounded_and_one_per_transaction(customer: Party) -> None:
    first = with_evidence(customer, unlabelled(USDC).signature)
    assert with_evidence(customer, first.signature).pk == first.pk
    for _ in range(4):
        with_evidence(customer, str(Keypair().sign_message(b"x")))
    with pytest.raises(Conflict, match="Five"):
        with_evidence(customer, str(Keypair().sign_message(b"x")))


@pytest.mark.parametrize("evidence", ["", "too short", "x" * 2_001])
def test_evidence_of_no_use_is_refused_by_name(customer: Party, evidence: str) -> None:
    with pytest.raises(Invalid) as refusal:
        claim_evidence_open(
            party=customer, signature=str(Keypair().sign_message(b"x")), evidence=evidence, now=clock.now()
        )
    assert list(refusal.value.fields) == ["evidence"]
    assert not DepositClaim.objects.exists()

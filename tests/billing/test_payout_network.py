"""A payout on a network that loses, takes back, contradicts itself or says nothing: one transfer, or a person is asked."""

from __future__ import annotations

from datetime import timedelta

import pytest
from solders.keypair import Keypair

from accounts.models import Party, User
from accounts.selectors import party_of
from billing.models import Payout, PayoutAttempt
from billing.selectors import in_flight_of
from billing.selectors.balances import house_balance
from billing.services import payout_advance, payout_run_start, policies_demo_install
from core import clock
from tests.billing.chain.world import USDC, World
from tests.billing.payouts import drive, next_monday, payable, released, run_on, settle, transfers_on_chain, wallet_for

pytestmark = pytest.mark.django_db


def test_a_transaction_that_never_lands_is_replaced_after_the_proof(
    chain: World, provider: Party, customer: Party
) -> None:
    payout, wallet = released(provider, customer, 5 * USDC)
    chain.control.fault("sendTransaction", "lose_transaction", times=1)
    payout_advance(payout_id=payout.pk, now=clock.now())
    chain.control.tick(140)
    chain.control.fault("sendTransaction", "drop_request", times=1)
    assert payout_advance(payout_id=payout.pk, now=clock.now() + timedelta(minutes=5)) == "submitted"
    assert PayoutAttempt.objects.count() == 1
    chain.control.tick(40)
    settle(payout, chain)
    assert list(payout.attempts.order_by("n").values_list("state", flat=True)) == ["expired", "settled"]
    chain.finalize()
    assert chain.usdc(str(wallet.pubkey()), "finalized") == 5 * USDC


def test_a_rollback_before_finality_is_followed_with_the_same_bytes(
    chain: World, provider: Party, customer: Party
) -> None:
    payout, wallet = released(provider, customer, 5 * USDC)
    payout_advance(payout_id=payout.pk, now=clock.now())
    chain.control.tick(3)
    assert payout_advance(payout_id=payout.pk, now=clock.now() + timedelta(minutes=5)) == "submitted"
    chain.control.rollback(3)
    settle(payout, chain)
    assert PayoutAttempt.objects.count() == 1
    chain.finalize()
    assert chain.usdc(str(wallet.pubkey()), "finalized") == 5 * USDC


FAULTS = [
    *(("sendTransaction", kind) for kind in ("drop_request", "drop_response", "http_503_after", "http_429", "garbage")),
    ("getSignatureStatuses", "http_503"),
    ("getSignatureStatuses", "node_behind"),
    ("getLatestBlockhash", "drop_response"),
    ("getTransaction", "garbage"),
]


@pytest.mark.parametrize(("method", "kind"), FAULTS)
def test_faults_of_a_node_prove_nothing(chain: World, provider: Party, customer: Party, method: str, kind: str) -> None:
    payout, wallet = released(provider, customer, 5 * USDC)
    chain.control.fault(method, kind, times=2)
    settle(payout, chain)
    chain.finalize()
    assert chain.usdc(str(wallet.pubkey()), "finalized") == 5 * USDC
    assert len(transfers_on_chain(payout, chain)) == 1


def test_nodes_that_contradict_each_other_make_it_unknown_and_it_settles_if_it_turns_up(
    chain: World, provider: Party, customer: Party
) -> None:
    payout, wallet = released(provider, customer, 5 * USDC)
    chain.control.hold()
    payout_advance(payout_id=payout.pk, now=clock.now())
    raw = chain.network.cluster.mempool
    kept = dict(raw)
    raw.clear()
    chain.control.release()
    chain.control.tick(170)
    chain.control.prune(chain.rpc.slot(commitment="finalized"))  # the second node no longer reaches back
    assert drive(payout, chain) == Payout.Status.UNKNOWN
    assert kept
    payout.refresh_from_db()
    assert PayoutAttempt.objects.get().state == "unknown" and "history" in payout.note
    chain.control.heal()
    for hours in (1, 2):  # never signed again by itself, even when the proof could be had
        assert payout_advance(payout_id=payout.pk, now=clock.now() + timedelta(hours=hours)) == "unknown"
    assert PayoutAttempt.objects.count() == 1
    assert in_flight_of(provider) == 5 * USDC
    assert chain.usdc(str(wallet.pubkey()), "finalized") == 0


def test_equal_amounts_to_the_same_wallet_are_two_transfers(
    chain: World, provider: Party, customer: Party, eve: User
) -> None:
    policies_demo_install(now=clock.now())
    wallet = Keypair()
    for party in (provider, party_of(eve)):
        wallet_for(party, wallet)
        payable(party, customer, 5 * USDC)
    for run in run_on(next_monday(clock.now())):
        payout_run_start(run_id=run.pk, now=clock.now())
    one, two = Payout.objects.order_by("pk")
    for payout in (one, two):  # both on one blockhash: only the memo tells them apart
        payout_advance(payout_id=payout.pk, now=clock.now())
    assert len(set(PayoutAttempt.objects.values_list("blockhash", flat=True))) == 1
    settle(one, chain)
    settle(two, chain)
    chain.finalize()
    assert chain.usdc(str(wallet.pubkey()), "finalized") == 10 * USDC


def test_an_attempt_that_fails_on_chain_costs_its_fee_and_nothing_else(
    chain: World, provider: Party, customer: Party
) -> None:
    payout, wallet = released(provider, customer, 5 * USDC)
    chain.control.mint(str(wallet.pubkey()), 1)
    chain.finalize()
    chain.control.hold()
    payout_advance(payout_id=payout.pk, now=clock.now())  # the dry run is fine, then the issuer freezes the account
    waiting = chain.control.facts()["mempool"]
    chain.network.cluster.holding = False
    raw = chain.network.cluster.mempool.pop(waiting[0])
    chain.control.freeze(str(wallet.pubkey()))
    chain.control.tick()
    chain.network.cluster.mempool[waiting[0]] = raw
    assert drive(payout, chain) == Payout.Status.BLOCKED
    assert (in_flight_of(provider), house_balance("network_fee", "SOL")) == (5 * USDC, -5_000)
    chain.control.freeze(str(wallet.pubkey()), thaw=True)
    chain.finalize()
    settle(payout, chain)
    assert chain.usdc(str(wallet.pubkey()), "finalized") == 5 * USDC + 1
    assert list(payout.attempts.order_by("n").values_list("state", flat=True)) == ["failed", "settled"]

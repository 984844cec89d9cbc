"""On chain lies what the books say: read from a running network, unknown where there is none; a difference stops payouts."""

from __future__ import annotations

import pytest

from accounts.models import Party
from billing.chain.transactions import build_deposit_message, sign_with_secret
from billing.invariants import TreasuryIsOnChain
from billing.models import Payout, PayoutSwitch, Transfer
from billing.selectors.balances import house_balance
from billing.services import (
    books_check,
    deposit_intent_open,
    deposits_read,
    payout_advance,
    payout_run_start,
    payouts_freeze,
    treasury_difference,
    treasury_read,
)
from core import clock
from tests.billing.chain.world import USDC, World
from tests.billing.payouts import released, settle

pytestmark = pytest.mark.django_db

FLOAT = 100_000 * USDC


def read() -> None:
    """What the money worker does every few seconds."""
    treasury_read(now=clock.now())
    deposits_read(now=clock.now())


def vault_sends(chain: World, owner: str, amount_micro: int) -> None:
    """The vault's key, which is on no server, moves money."""
    message = build_deposit_message(
        owner=chain.facts["vault_owner"],
        mint=chain.mint,
        recipient=owner,
        amount_micro=amount_micro,
        blockhash=chain.rpc.latest_blockhash(commitment="processed").blockhash,
    )
    chain.send(sign_with_secret(message, bytes(chain.key("vault_owner"))), skip_preflight=True)
    chain.finalize()


def test_without_a_chain_nothing_is_known() -> None:
    assert treasury_difference() is None
    assert TreasuryIsOnChain().check() == []
    assert treasury_read(now=clock.now()) == 0


def test_before_it_is_watched_and_while_a_node_is_silent_nothing_is_known(chain: World) -> None:
    assert treasury_difference() is None
    read()
    assert treasury_difference() == []
    chain.control.fault("*", "http_503", times=1)
    assert treasury_difference() is None
    chain.control.clear_faults()
    assert treasury_difference() == []


def test_deposits_payouts_and_fundings_keep_chain_and_books_equal(
    chain: World, provider: Party, customer: Party
) -> None:
    read()
    assert house_balance("capital") == FLOAT
    reference = deposit_intent_open(party=customer, amount_micro=None, now=clock.now()).reference
    chain.deposit(chain.customer(), 25 * USDC, references=[reference])
    chain.finalize()
    assert treasury_difference() == []  # it arrived and is not read yet
    read()
    assert treasury_difference() == []
    payout, _ = released(provider, customer, 5 * USDC)
    payout_advance(payout_id=payout.pk, now=clock.now())
    assert treasury_difference() == []  # signed
    chain.finalize()
    assert treasury_difference() == []  # landed, the ledger does not know it yet
    settle(payout, chain)
    assert treasury_difference() == []
    vault_sends(chain, chain.hot_wallet, 20 * USDC)
    chain.control.mint(chain.hot_wallet, 3 * USDC)
    chain.finalize()
    assert treasury_difference() == []  # not read yet
    for _twice in range(2):
        read()
    assert treasury_difference() == []
    assert Transfer.objects.filter(kind="funding").count() == 3
    assert (house_balance("deposits_clearing"), house_balance("capital")) == (-5 * USDC, FLOAT + 3 * USDC)
    assert house_balance("treasury") == -(FLOAT + 18 * USDC)


def test_money_that_left_the_vault_unknown_to_the_books_stops_payouts(
    chain: World, provider: Party, customer: Party
) -> None:
    read()
    chain.deposit(chain.customer(), 25 * USDC)
    chain.finalize()
    read()
    payout, _ = released(provider, customer, 5 * USDC)
    thief = chain.customer(1)
    vault_sends(chain, str(thief.pubkey()), 1)
    read()
    sentence = "the vault holds 24.999999 USDC, the books say 25.00"
    assert [found.message for found in TreasuryIsOnChain().check()] == [sentence]
    for _twice in range(2):
        assert books_check(now=clock.now()) == sentence
    assert PayoutSwitch.objects.get().reason == f"the books are wrong: {sentence}"
    assert payout_advance(payout_id=payout.pk, now=clock.now()) == Payout.Status.READY
    assert not payout.attempts.exists()
    payouts_freeze(frozen=False, reason="the operator moved it, and booked it elsewhere", now=clock.now())
    assert payout_advance(payout_id=payout.pk, now=clock.now()) == Payout.Status.SUBMITTED


def test_right_books_freeze_nothing(chain: World, provider: Party, customer: Party) -> None:
    payout, _ = released(provider, customer, 5 * USDC)
    read()
    assert books_check(now=clock.now()) is None
    assert not PayoutSwitch.objects.exists()
    settle(payout, chain)
    assert payout_run_start(run_id=payout.run_id, now=clock.now()).status in {"released", "finished"}

"""A deposit is what the vault gained in a final block: credited once, to whom its reference names, or to nobody."""

from __future__ import annotations

from typing import Any

import pytest
from solders.keypair import Keypair

from accounts.models import Notification, Party
from billing.chain.transactions import build_deposit_message, sign_with_secret
from billing.models import Deposit, ReaderCursor, Transfer
from billing.selectors import balance_of
from billing.selectors.balances import house_balance
from billing.selectors.deposits import pay_qr
from billing.services import NetworkUnavailable, deposit_intent_open, deposit_link, deposits_read
from billing.services.network import network
from core import clock
from core.errors import Invalid
from tests.billing.chain.world import USDC, World

pytestmark = pytest.mark.django_db


def read() -> int:
    return deposits_read(now=clock.now())


def intent(party: Party, amount: int | None = 25 * USDC) -> str:
    return deposit_intent_open(party=party, amount_micro=amount, now=clock.now()).reference


def test_a_final_deposit_is_credited_once(chain: World, customer: Party) -> None:
    payer = chain.customer()
    signature = chain.deposit(payer, 25 * USDC, references=[intent(customer)])
    chain.control.tick(3)
    assert read() == 0  # confirmed is not final
    chain.finalize()
    assert [read(), read()] == [1, 0]
    deposit = Deposit.objects.get()
    assert (deposit.signature, deposit.sender, deposit.party) == (signature, str(payer.pubkey()), customer)
    assert balance_of(customer).balance_micro == 25 * USDC
    assert house_balance("deposits_clearing") == -25 * USDC
    assert [row.kind for row in Notification.objects.all()] == ["deposit_credited"]


def test_what_arrives_is_credited_over_under_and_late(chain: World, customer: Party) -> None:
    payer = chain.customer()
    reference = intent(customer, 25 * USDC)
    for amount in (1, 70 * USDC, 25 * USDC):
        chain.deposit(payer, amount, references=[reference])
        chain.finalize()
        read()
    assert balance_of(customer).balance_micro == 95 * USDC + 1


def test_a_deposit_that_names_nobody_or_two_people_waits_in_suspense(
    chain: World, customer: Party, provider: Party
) -> None:
    payer = chain.customer()
    chain.deposit(payer, 3 * USDC)
    chain.deposit(payer, 4 * USDC, references=[intent(customer), intent(provider)])
    chain.finalize()
    assert read() == 2
    assert set(Deposit.objects.values_list("reason", "state")) == {
        ("no_reference", "suspense"),
        ("several_customers", "suspense"),
    }
    assert (house_balance("suspense"), balance_of(customer).balance_micro) == (7 * USDC, 0)


def test_another_mint_is_never_credited(chain: World, customer: Party) -> None:
    decoy = chain.facts["decoy_mint"]
    payer = chain.customer()
    for wallet in (str(payer.pubkey()), chain.facts["vault_owner"]):
        chain.control.mint(wallet, 100 * USDC, mint=decoy)
    chain.control.tick()
    message = build_deposit_message(
        owner=str(payer.pubkey()),
        mint=decoy,
        recipient=chain.facts["vault_owner"],
        amount_micro=50 * USDC,
        blockhash=chain.rpc.latest_blockhash(commitment="processed").blockhash,
        references=[intent(customer)],
    )
    signature = chain.send(sign_with_secret(message, bytes(payer)), skip_preflight=True)
    chain.finalize()
    assert chain.error_of(signature) is None  # it landed, and means nothing
    assert read() == 0
    assert balance_of(customer).balance_micro == 0
    assert not Transfer.objects.exists()


def test_a_deposit_that_is_rolled_back_was_never_there(chain: World, customer: Party) -> None:
    chain.deposit(chain.customer(), 25 * USDC, references=[intent(customer)])
    chain.control.tick(3)
    chain.control.rollback(3)
    chain.finalize()
    assert read() == 0
    assert balance_of(customer).balance_micro == 0


def test_it_waits_until_the_second_endpoint_agrees(chain: World, customer: Party) -> None:
    chain.deposit(chain.customer(), 25 * USDC, references=[intent(customer)])
    chain.control.lag(40)
    chain.finalize()
    assert read() == 0
    assert not ReaderCursor.objects.exists()
    chain.control.heal()
    assert read() == 1


def test_a_node_that_says_nothing_moves_nothing(chain: World, customer: Party) -> None:
    chain.deposit(chain.customer(), 25 * USDC, references=[intent(customer)])
    chain.finalize()
    chain.control.fault("*", "http_503", times=1)
    assert read() == 0
    chain.control.clear_faults()
    chain.control.prune(chain.rpc.slot(commitment="processed"), endpoint="primary")
    assert read() == 0
    chain.control.prune(1, endpoint="primary")
    assert read() == 1


def test_nothing_is_read_without_a_chain(settings: Any) -> None:
    settings.SOLANA_RPC_URL = ""
    assert read() == 0


@pytest.mark.parametrize("amount", [0, -1, 10**13])
def test_a_request_out_of_range_names_the_field(customer: Party, amount: int) -> None:
    with pytest.raises(Invalid) as refusal:
        intent(customer, amount)
    assert "amount" in refusal.value.fields


def test_the_payment_link_says_what_a_wallet_needs(chain: World, customer: Party) -> None:
    made = deposit_intent_open(party=customer, amount_micro=1_234_500_000, now=clock.now())
    link = deposit_link(made)
    for part in (f"solana:{chain.facts['vault_owner']}?", "amount=1234.5&", chain.mint, made.reference, str(made.pk)):
        assert part in link
    assert pay_qr(link).startswith("<svg")


def test_wallets_without_money_make_no_deposit(chain: World, customer: Party) -> None:
    poor = Keypair()
    chain.control.airdrop(str(poor.pubkey()), 10**9)
    chain.control.mint(str(poor.pubkey()), 1)
    chain.control.tick()
    signature = chain.deposit(poor, 25 * USDC, references=[intent(customer)])
    chain.finalize()
    assert chain.error_of(signature) is not None
    assert read() == 0
    assert not Deposit.objects.exists()


def test_one_endpoint_asked_twice_is_not_two_that_agree(chain: World, customer: Party, settings: Any) -> None:
    chain.deposit(chain.customer(), 25 * USDC, references=[intent(customer)])
    chain.finalize()
    second, settings.SOLANA_SECOND_RPC_URL = settings.SOLANA_SECOND_RPC_URL, settings.SOLANA_RPC_URL
    settings.DEMO = False
    with pytest.raises(NetworkUnavailable, match="SOLANA_SECOND_RPC_URL: found the first endpoint again"):
        network()
    assert read() == 0
    settings.SOLANA_SECOND_RPC_URL = second
    assert read() == 1

"""Wrong money under one of our references: never credited, written down and told once."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import Error, connection, transaction
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer

from accounts.models import Notification, Party
from billing.chain.transactions import build_deposit_message, sign_with_secret
from billing.models import Deposit, DepositIntent, ForeignPayment, Transfer
from billing.selectors import balance_of
from billing.selectors.deposits import progress_of
from billing.services import deposit_intent_open, deposits_read, foreign_payments_read
from core import clock
from tests.billing.chain.world import USDC, World

pytestmark = pytest.mark.django_db


def intent(party: Party) -> DepositIntent:
    return deposit_intent_open(party=party, amount_micro=25 * USDC, now=clock.now())


def decoyed(chain: World, reference: str, amount: int = 50 * USDC) -> str:
    """Another token of as many decimals to the vault's owner, with our reference; final."""
    decoy, payer = chain.facts["decoy_mint"], chain.customer()
    for wallet in (str(payer.pubkey()), chain.facts["vault_owner"]):
        chain.control.mint(wallet, 100 * USDC, mint=decoy)
    chain.control.tick()
    message = build_deposit_message(
        owner=str(payer.pubkey()),
        mint=decoy,
        recipient=chain.facts["vault_owner"],
        amount_micro=amount,
        blockhash=chain.rpc.latest_blockhash(commitment="processed").blockhash,
        references=[reference],
    )
    signature = chain.send(sign_with_secret(message, bytes(payer)), skip_preflight=True)
    chain.finalize()
    assert chain.error_of(signature) is None
    return signature


def in_sol(chain: World, reference: str, lamports: int) -> str:
    """SOL to the vault's owner, with our reference among the accounts; final."""
    payer = chain.customer()
    step = transfer(
        TransferParams(
            from_pubkey=payer.pubkey(),
            to_pubkey=Pubkey.from_string(chain.facts["vault_owner"]),
            lamports=lamports,
        )
    )
    labelled = Instruction(
        step.program_id, step.data, [*step.accounts, AccountMeta(Pubkey.from_string(reference), False, False)]
    )
    signature = chain.submit([labelled], payer)
    chain.finalize()
    assert chain.error_of(signature) is None
    return signature


def kinds(party: Party) -> list[str]:
    return list(Notification.objects.filter(user__memberships__party=party).values_list("kind", flat=True))


def test_another_token_is_told_once_and_never_credited(chain: World, customer: Party) -> None:
    made = intent(customer)
    signature = decoyed(chain, made.reference)
    assert [foreign_payments_read(now=clock.now()) for _ in range(3)] == [1, 0, 0]
    payment = ForeignPayment.objects.get()
    assert (payment.signature, payment.mint, payment.amount, payment.intent_id) == (
        signature,
        chain.facts["decoy_mint"],
        50 * USDC,
        made.pk,
    )
    assert kinds(customer) == ["foreign_payment"]
    assert deposits_read(now=clock.now()) == 0
    assert (balance_of(customer).balance_micro, Deposit.objects.count(), Transfer.objects.count()) == (0, 0, 0)
    progress = progress_of(made)
    assert (len(progress.foreign), progress.arrived, progress.waits) == (1, "nothing", True)


def test_sol_is_wrong_money_too(chain: World, customer: Party) -> None:
    signature = in_sol(chain, intent(customer).reference, 300_000_000)
    assert foreign_payments_read(now=clock.now()) == 1
    payment = ForeignPayment.objects.get()
    assert (payment.signature, payment.mint, payment.amount) == (signature, "SOL", 300_000_000)


def test_only_whose_reference_it_has_is_told(chain: World, customer: Party, provider: Party) -> None:
    intent(provider)
    decoyed(chain, intent(customer).reference)
    foreign_payments_read(now=clock.now())
    assert (kinds(customer), kinds(provider)) == (["foreign_payment"], [])


def test_usdc_is_nothing_foreign_and_a_paid_intent_is_left_alone(chain: World, customer: Party) -> None:
    made = intent(customer)
    chain.deposit(chain.customer(), 25 * USDC, references=[made.reference])
    chain.finalize()
    assert foreign_payments_read(now=clock.now()) == 0
    assert deposits_read(now=clock.now()) == 1
    before = chain.control.calls().get("getSignaturesForAddress", 0)
    assert foreign_payments_read(now=clock.now()) == 0
    assert chain.control.calls().get("getSignaturesForAddress", 0) == before


def test_an_old_intent_is_looked_at_less_often_and_then_no_more(chain: World, customer: Party) -> None:
    decoyed(chain, intent(customer).reference)
    at = clock.now()
    assert foreign_payments_read(now=at + timedelta(days=1, minutes=1)) == 0
    later = at + timedelta(hours=20)
    assert foreign_payments_read(now=later) == 1  # the ten minutes' own look
    assert ForeignPayment.objects.count() == 1


def test_a_node_that_says_nothing_moves_nothing_and_is_asked_again(chain: World, customer: Party) -> None:
    decoyed(chain, intent(customer).reference)
    chain.control.fault("getSignaturesForAddress", "http_503", times=1)
    assert foreign_payments_read(now=clock.now()) == 0
    assert foreign_payments_read(now=clock.now()) == 1


def test_what_was_seen_stays(chain: World, customer: Party) -> None:
    decoyed(chain, intent(customer).reference)
    foreign_payments_read(now=clock.now())
    for statement in ("UPDATE billing_foreignpayment SET amount = 1", "DELETE FROM billing_foreignpayment"):
        with pytest.raises(Error, match="written once"), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement)


def test_a_strangers_own_reference_names_nobody(chain: World, customer: Party) -> None:
    intent(customer)
    decoyed(chain, str(Keypair().pubkey()))
    assert foreign_payments_read(now=clock.now()) == 0

"""Unspent money goes back to its customer's wallet: by the payout machine, once, and never more than is there."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from solders.keypair import Keypair

from accounts.models import Notification, Party, User
from billing.models import Payout, PayoutAttempt, PayoutRun, Purpose
from billing.selectors import balance_of, in_flight_of, payable_of, payouts_of, payouts_page, why_not_yet
from billing.selectors.balances import house_balance, withdrawing_of
from billing.selectors.documents import payouts_unstated
from billing.services import (
    destination_challenge,
    destination_prove,
    hold_place,
    monthly_statement_issue,
    payout_advance,
    payout_approve,
    payout_run_start,
    payouts_freeze,
    payouts_run,
    policies_demo_install,
    policy_set,
    withdrawal_cancel,
)
from billing.services.payouts.advance import PayoutPass
from billing.services.payouts.screening import payee_obstacle
from core import clock
from core.errors import Conflict, InsufficientFunds, Invalid, NotFound
from core.ids import uuid7
from tests.billing.chain.world import USDC, World
from tests.billing.payouts import drive, next_monday, payable, settle, transfers_on_chain, wallet_for
from tests.factories.billing import earned, funded
from tests.factories.withdrawals import withdrawal_wallet, withdrawing

pytestmark = pytest.mark.django_db

FEE = USDC // 2


def ready(customer: Party, amount: int = 30 * USDC) -> Party:
    """With money, and a wallet that has cooled down."""
    withdrawal_wallet(customer)
    return funded(customer, amount)


def proven(party: Party) -> Keypair:
    """A withdrawal wallet proven as its owner does it."""
    wallet, purpose = Keypair(), Purpose.WITHDRAWAL
    address = str(wallet.pubkey())
    text = destination_challenge(party=party, address=address, purpose=purpose, now=clock.now()).text
    signature = str(wallet.sign_message(text.encode()))
    destination_prove(party=party, address=address, signature=signature, purpose=purpose, now=clock.now())
    return wallet


def nothing_moved(party: Party, balance: int) -> None:
    assert (balance_of(party).balance_micro, Payout.objects.count(), PayoutRun.objects.count()) == (balance, 0, 0)


# -- The request ----------------------------------------------------------------------------------------------------


def test_what_is_asked_for_leaves_the_balance_at_once(customer: Party) -> None:
    payout = withdrawing(ready(customer), 20 * USDC)
    assert (payout.amount_micro, payout.fee_micro, payout.status) == (20 * USDC - FEE, FEE, "awaiting_release")
    assert balance_of(customer).balance_micro == 10 * USDC
    assert (withdrawing_of(customer), house_balance("network_fee")) == (20 * USDC - FEE, FEE)
    assert (payout.run.kind, payout.run.status) == ("withdraw", "planned")
    assert "withdrawal_requested" in Notification.objects.values_list("kind", flat=True)


def test_what_is_set_aside_stays(customer: Party) -> None:
    ready(customer)
    hold_place(party=customer, amount_micro=12 * USDC, source="job:1", now=clock.now())
    with pytest.raises(InsufficientFunds) as refusal:
        withdrawing(customer, 18 * USDC + 1)
    assert "18.000001 USDC; available: 18.00 USDC" in refusal.value.fields["amount"][0]
    nothing_moved(customer, 30 * USDC)
    withdrawing(customer, 18 * USDC)
    assert balance_of(customer).available_micro == 0
    assert balance_of(customer).held_micro == 12 * USDC


@pytest.mark.parametrize("amount", [-1, 0, 1, 5 * USDC - 1])
def test_below_the_minimum_names_field_found_and_allowed(customer: Party, amount: int) -> None:
    ready(customer)
    with pytest.raises(Invalid) as refusal:
        withdrawing(customer, amount)
    (sentence,) = refusal.value.fields["amount"]
    assert "Found" in sentence and "from 5.00 USDC" in sentence
    nothing_moved(customer, 30 * USDC)


def test_without_a_wallet_or_before_it_has_cooled_down_nothing_moves(customer: Party) -> None:
    funded(customer, 30 * USDC)
    for make in (None, lambda: withdrawal_wallet(customer, usable_from=clock.now() + timedelta(hours=71))):
        if make:
            make()
        with pytest.raises(Invalid) as refusal:
            withdrawing(customer, 20 * USDC)
        assert list(refusal.value.fields) == ["wallet"]
        nothing_moved(customer, 30 * USDC)


def test_a_suspended_customer_takes_nothing_out(customer: Party) -> None:
    ready(customer)
    Party.objects.filter(pk=customer.pk).update(status=Party.Status.SUSPENDED)
    with pytest.raises(Conflict, match="suspended"):
        withdrawing(customer, 20 * USDC)
    nothing_moved(customer, 30 * USDC)


def test_the_same_request_again_is_one_withdrawal(customer: Party) -> None:
    ready(customer)
    key = uuid7()
    first, again = (withdrawing(customer, 20 * USDC, key=key) for _ in range(2))
    assert first.pk == again.pk
    with pytest.raises(Conflict, match="another amount"):
        withdrawing(customer, 6 * USDC, key=key)
    assert (balance_of(customer).balance_micro, Payout.objects.count()) == (10 * USDC, 1)


def test_a_fourth_waits_until_one_of_three_is_over(customer: Party, ravi: User) -> None:
    ready(customer)
    first, *_ = (withdrawing(customer, 5 * USDC) for _ in range(3))
    with pytest.raises(Conflict, match="Three withdrawals"):
        withdrawing(customer, 5 * USDC)
    withdrawal_cancel(party=customer, payout_id=first.pk, actor=ravi, now=clock.now())
    withdrawing(customer, 5 * USDC)


def test_a_free_withdrawal_has_no_fee_leg(customer: Party) -> None:
    policy_set(name="withdrawal_fee_micro", value=0, valid_from=clock.now())
    payout = withdrawing(ready(customer), 20 * USDC)
    assert (payout.amount_micro, payout.fee_micro) == (20 * USDC, 0)
    assert house_balance("network_fee") == 0


# -- Cancelling -----------------------------------------------------------------------------------------------------


def test_a_cancel_gives_all_of_it_back_once(customer: Party, ravi: User) -> None:
    payout = withdrawing(ready(customer), 20 * USDC)
    for _ in range(2):
        withdrawal_cancel(party=customer, payout_id=payout.pk, actor=ravi, now=clock.now())
    assert (balance_of(customer).balance_micro, withdrawing_of(customer)) == (30 * USDC, 0)
    assert house_balance("network_fee") == 0
    assert Notification.objects.filter(kind="withdrawal_cancelled").count() == 1


def test_nobody_cancels_anybody_elses_nor_a_providers_payout(customer: Party, provider: Party, ada: User) -> None:
    payout = withdrawing(ready(customer), 20 * USDC)
    with pytest.raises(NotFound):
        withdrawal_cancel(party=provider, payout_id=payout.pk, actor=ada, now=clock.now())
    payout.refresh_from_db()
    assert payout.status == "awaiting_release"


# -- The machine ----------------------------------------------------------------------------------------------------


@pytest.fixture
def waiting(chain: World, customer: Party) -> tuple[Payout, Keypair]:
    policy_set(name="destination_cool_down_seconds", value=0, valid_from=clock.now())
    wallet = proven(customer)
    funded(customer, 30 * USDC)
    payout = withdrawing(customer, 20 * USDC)
    assert payout_run_start(run_id=payout.run_id, now=clock.now()).status == "planned"
    return payout, wallet


def released(payout: Payout, olga: User, eve: User) -> Payout:
    eve.is_staff = True
    eve.save()
    eve.user_permissions.set(olga.user_permissions.all())
    for approver in (olga, User.objects.get(pk=eve.pk)):
        payout_approve(payout=payout, approver=approver, now=clock.now())
    payout.refresh_from_db()
    assert payout.status == "ready"
    return payout


def test_two_people_release_and_the_wallet_gets_it_once(
    waiting: tuple[Payout, Keypair], chain: World, customer: Party, olga: User, eve: User
) -> None:
    payout, wallet = waiting
    assert payout_advance(payout_id=payout.pk, now=clock.now()) == "busy"  # nobody has released it
    settle(released(payout, olga, eve), chain)
    chain.finalize()
    assert chain.usdc(str(wallet.pubkey()), "finalized") == 20 * USDC - FEE
    assert len(transfers_on_chain(payout, chain)) == 1
    assert (balance_of(customer).balance_micro, withdrawing_of(customer)) == (10 * USDC, 0)
    assert house_balance("treasury") == 20 * USDC - FEE
    kinds = set(Notification.objects.values_list("kind", flat=True))
    assert "withdrawal_settled" in kinds and "payout_settled" not in kinds
    (row,), _ = payouts_page(customer, withdrawals=True)
    assert (row.status, row.signature) == ("settled", payout.attempts.get().signature)
    with pytest.raises(Conflict, match="on its way"):
        withdrawal_cancel(party=customer, payout_id=payout.pk, actor=olga, now=clock.now())


def test_a_signed_one_cannot_be_cancelled(
    waiting: tuple[Payout, Keypair], chain: World, customer: Party, olga: User, eve: User
) -> None:
    payout = released(waiting[0], olga, eve)
    payout_advance(payout_id=payout.pk, now=clock.now())
    with pytest.raises(Conflict, match="on its way"):
        withdrawal_cancel(party=customer, payout_id=payout.pk, actor=olga, now=clock.now())
    assert (balance_of(customer).balance_micro, withdrawing_of(customer)) == (10 * USDC, 20 * USDC - FEE)
    settle(payout, chain)


def test_a_cancel_while_the_worker_prepares_it_leaves_nothing_to_send(
    waiting: tuple[Payout, Keypair],
    chain: World,
    customer: Party,
    olga: User,
    eve: User,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    payout = released(waiting[0], olga, eve)
    sign: Callable[..., Any] = PayoutPass.sign

    def cancelled_meanwhile(step: Any, *arguments: Any) -> Any:
        withdrawal_cancel(party=customer, payout_id=payout.pk, actor=olga, now=clock.now())
        return sign(step, *arguments)

    monkeypatch.setattr(PayoutPass, "sign", cancelled_meanwhile)
    assert payout_advance(payout_id=payout.pk, now=clock.now()) == "cancelled"
    assert not PayoutAttempt.objects.exists()
    assert balance_of(customer).balance_micro == 30 * USDC


def test_what_was_used_meanwhile_holds_it_up(
    waiting: tuple[Payout, Keypair], chain: World, customer: Party, provider: Party, olga: User, eve: User
) -> None:
    """Usage is charged whatever it does to the balance; a withdrawal then waits, and its cancelling pays the debt."""
    payout = released(waiting[0], olga, eve)
    earned(provider, customer, 25 * USDC)
    assert balance_of(customer).balance_micro == -15 * USDC
    assert drive(payout, chain) == "blocked"
    assert not PayoutAttempt.objects.exists()
    withdrawal_cancel(party=customer, payout_id=payout.pk, actor=olga, now=clock.now())
    assert balance_of(customer).balance_micro == 5 * USDC


def test_frozen_payouts_freeze_withdrawals_too(
    waiting: tuple[Payout, Keypair], chain: World, olga: User, eve: User
) -> None:
    payout = released(waiting[0], olga, eve)
    payouts_freeze(frozen=True, reason="restored", now=clock.now())
    assert payout_advance(payout_id=payout.pk, now=clock.now()) == "ready"
    assert not PayoutAttempt.objects.exists()


def test_more_than_can_be_released_in_a_day_is_refused_at_once(customer: Party) -> None:
    ready(customer, 300_000 * USDC)
    with pytest.raises(Invalid) as refusal:
        withdrawing(customer, 5_001 * USDC)
    assert "at most 5,000.00 USDC" in refusal.value.fields["amount"][0]
    assert not Payout.objects.exists()
    assert withdrawing(customer, 5_000 * USDC).amount_micro <= 5_000 * USDC


def test_a_wallet_that_cannot_pay_pauses_it_and_says_so(chain: World, customer: Party) -> None:
    for name in ("release_limit_micro", "payout_limit_micro"):
        policy_set(name=name, value=200_000 * USDC, valid_from=clock.now())
    payout = withdrawing(ready(customer, 300_000 * USDC), 200_000 * USDC)
    run = payout_run_start(run_id=payout.run_id, now=clock.now())
    assert run.status == "paused" and "the hot wallet holds" in run.pause_reason


def test_the_demo_releases_by_itself(chain: World, customer: Party) -> None:
    policies_demo_install(now=clock.now())
    wallet = proven(customer)
    funded(customer, 2 * USDC)
    payout = withdrawing(customer, USDC)
    payout_run_start(run_id=payout.run_id, now=clock.now())
    settle(payout, chain)
    chain.finalize()
    assert chain.usdc(str(wallet.pubkey()), "finalized") == USDC - USDC // 100


# -- One party, two purposes ----------------------------------------------------------------------------------------


def test_a_providers_wallet_and_a_customers_are_two(chain: World, provider: Party) -> None:
    policies_demo_install(now=clock.now())
    funded(provider, 9 * USDC)
    wallet_for(provider)
    with pytest.raises(Invalid) as refusal:
        withdrawing(provider, 5 * USDC)
    assert list(refusal.value.fields) == ["wallet"]
    kinds = set(Notification.objects.values_list("kind", flat=True))
    assert kinds == {"destination_changed"}
    proven(provider)
    assert "withdrawal_wallet_changed" in Notification.objects.values_list("kind", flat=True)
    assert withdrawing(provider, 5 * USDC).destination.purpose == "withdrawal"


def test_a_text_for_one_purpose_proves_nothing_for_the_other(chain: World, provider: Party) -> None:
    wallet = Keypair()
    address, now = str(wallet.pubkey()), clock.now()
    text = destination_challenge(party=provider, address=address, now=now).text
    signature = str(wallet.sign_message(text.encode()))
    with pytest.raises(Conflict):
        destination_prove(party=provider, address=address, signature=signature, purpose="withdrawal", now=now)
    destination_challenge(party=provider, address=address, purpose="withdrawal", now=now)
    with pytest.raises(Invalid):  # their own text waits, and the provider's signature is not of it
        destination_prove(party=provider, address=address, signature=signature, purpose="withdrawal", now=now)


def test_earnings_and_withdrawals_are_told_apart(chain: World, provider: Party, customer: Party) -> None:
    policies_demo_install(now=clock.now())
    policy_set(name="automatic_release", value=0, valid_from=clock.now())
    wallet_for(provider)
    payable(provider, customer, 7 * USDC)
    funded(provider, 9 * USDC)
    withdrawal_wallet(provider)
    withdrawn = withdrawing(provider, 5 * USDC)
    payouts_run(as_of=next_monday(clock.now()).date(), now=clock.now())
    assert (in_flight_of(provider), withdrawing_of(provider)) == (7 * USDC, withdrawn.amount_micro)
    assert (payable_of(provider), balance_of(provider).balance_micro) == (0, 4 * USDC)
    assert [row.amount_micro for row in payouts_of(provider)] == [7 * USDC]
    assert [row.id for row in payouts_page(provider, withdrawals=True)[0]] == [withdrawn.pk]
    assert len([text for text in why_not_yet(provider, clock.now()) if "reserved" in text]) == 1


def test_a_settled_withdrawal_is_a_line_of_the_month_and_no_payout_statement(chain: World, customer: Party) -> None:
    policies_demo_install(now=clock.now())
    proven(customer)
    funded(customer, 2 * USDC)
    payout = withdrawing(customer, USDC)
    payout_run_start(run_id=payout.run_id, now=clock.now())
    settle(payout, chain)
    assert payouts_unstated(10) == []
    start = clock.now().date().replace(day=1)
    end = (start + timedelta(days=40)).replace(day=1)
    later = clock.now() + timedelta(days=45)
    document = monthly_statement_issue(party=customer, start=start, end=end, now=later)
    assert document is not None
    assert [(line["kind"], line["amount_micro"]) for line in document.facts["lines"]] == [
        ("deposit", 2 * USDC),
        ("withdrawal_reserved", -USDC),
    ]


def test_the_screener_and_debts_count_for_withdrawals_too(customer: Party, provider: Party) -> None:
    payout = withdrawing(ready(customer), 20 * USDC)
    assert payee_obstacle(payout, clock.now()) is None
    earned(provider, customer, 11 * USDC)
    assert "below zero" in str(payee_obstacle(payout, clock.now()))

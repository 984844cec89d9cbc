"""A worker killed at any point of a payout: exactly one transfer on chain, balanced books, nobody had to look."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection

from accounts.models import Party
from billing.models import Payout, PayoutAttempt
from billing.selectors import in_flight_of, payable_of
from billing.services import payout_advance
from billing.services.payouts.advance import PayoutPass
from core import clock
from tests.billing.chain.world import USDC, World
from tests.billing.nursery import Nursery, money_queue_empty
from tests.billing.payouts import drive, released, transfers_on_chain

AMOUNT = 7 * USDC + 1

FIRST_PASS = {
    # point: (attempts in the books when the process is dead, transactions in the mempool)
    "before_the_lock": (0, 0),
    "after_build": (0, 0),
    "after_sign": (0, 0),
    "after_insert_before_commit": (0, 0),
    "after_commit_before_send": (1, 0),
    "after_send_before_reply": (1, 1),
}


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    with Nursery(tmp_path_factory.mktemp("workers")) as running:
        yield running


def settled_once(payout: Payout, wallet: str, chain: World) -> None:
    payout.refresh_from_db()
    assert payout.status == Payout.Status.SETTLED
    chain.finalize()
    assert len(transfers_on_chain(payout, chain)) == 1
    assert chain.usdc(wallet, "finalized") == payout.amount_micro == AMOUNT
    assert (in_flight_of(payout.party), payable_of(payout.party)) == (0, 0)
    assert payout.attempts.filter(state="settled").count() == 1


@pytest.mark.parametrize("point", FIRST_PASS)
def test_a_celery_worker_killed_on_the_way_to_the_node(
    committed_db: str, chain: World, provider: Party, customer: Party, nursery: Nursery, point: str
) -> None:
    """Its message is never acknowledged, its lease never given back; the next worker's sweeps find the payout in the
    database."""
    money_queue_empty()
    payout, wallet = released(provider, customer, AMOUNT)  # its release enqueued billing.payout_submit
    assert nursery.celery(point, chain).killed()
    assert (PayoutAttempt.objects.count(), len(chain.control.facts()["mempool"])) == FIRST_PASS[point]
    with nursery.celery("never", chain) as fresh:
        fresh.settle(payout)
        settled_once(payout, str(wallet.pubkey()), chain)
        fresh.repeat(payout)
    settled_once(payout, str(wallet.pubkey()), chain)


@pytest.mark.parametrize("point", ["while_polling", "after_finalized_before_ledger"])
def test_killed_after_it_was_sent(
    committed_db: str, chain: World, provider: Party, customer: Party, nursery: Nursery, point: str
) -> None:
    payout, wallet = released(provider, customer, AMOUNT)
    payout_advance(payout_id=payout.pk, now=clock.now())
    chain.finalize()
    assert nursery.one_pass(point, payout, chain, now=clock.now() + timedelta(minutes=5)).killed()
    assert drive(payout, chain) == Payout.Status.SETTLED
    settled_once(payout, str(wallet.pubkey()), chain)


def test_killed_between_expired_and_the_next_attempt(
    committed_db: str, chain: World, provider: Party, customer: Party, nursery: Nursery
) -> None:
    payout, wallet = released(provider, customer, AMOUNT)
    chain.control.fault("sendTransaction", "lose_transaction", times=1)
    payout_advance(payout_id=payout.pk, now=clock.now())
    chain.control.tick(170)
    later = clock.now() + timedelta(minutes=5)
    assert nursery.one_pass("between_expired_and_next", payout, chain, now=later).killed()
    assert drive(payout, chain) == Payout.Status.SETTLED
    settled_once(payout, str(wallet.pubkey()), chain)
    assert list(payout.attempts.order_by("n").values_list("state", flat=True)) == ["expired", "settled"]


def test_two_workers_at_once_sign_once(committed_db: str, chain: World, provider: Party, customer: Party) -> None:
    payout, wallet = released(provider, customer, AMOUNT)

    def advance(_: int) -> str:
        try:
            return payout_advance(payout_id=payout.pk, now=clock.now())
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        answers = sorted(pool.map(advance, range(4)))
    assert "submitted" in answers
    assert PayoutAttempt.objects.count() == 1
    assert drive(payout, chain) == Payout.Status.SETTLED
    settled_once(payout, str(wallet.pubkey()), chain)


def test_without_the_lease_the_database_still_allows_one_attempt(
    committed_db: str, chain: World, provider: Party, customer: Party, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease only saves work: taken away, two passes sign, and the second INSERT is refused."""
    payout, wallet = released(provider, customer, AMOUNT)
    both_built: list[object] = []
    sign = PayoutPass.sign

    def nested(self: PayoutPass, signer: object, unsigned: object) -> object:
        signed = sign(self, signer, unsigned)  # type: ignore[arg-type]
        both_built.append(signed)
        if len(both_built) == 1:  # the first pass, just before its INSERT, sleeps; the second overtakes it
            Payout.objects.filter(pk=payout.pk).update(lease_until=None)
            payout_advance(payout_id=payout.pk, now=clock.now())
        return signed

    monkeypatch.setattr(PayoutPass, "sign", nested)
    payout_advance(payout_id=payout.pk, now=clock.now())
    assert len(both_built) == 2
    assert PayoutAttempt.objects.count() == 1
    monkeypatch.undo()
    assert drive(payout, chain) == Payout.Status.SETTLED
    settled_once(payout, str(wallet.pubkey()), chain)

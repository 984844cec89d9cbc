"""An unknown payout and a person: they choose when to look, only proof moves it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection

from accounts.models import Party, User
from billing.models import Payout, PayoutAttempt
from billing.selectors import in_flight_of
from billing.services import NetworkUnavailable, payout_advance, payout_resolve
from core import clock
from core.errors import Conflict, Denied, Invalid
from core.models import StatusEvent
from tests.billing.chain.world import USDC, World
from tests.billing.payouts import drive, released, settle, transfers_on_chain

pytestmark = pytest.mark.django_db

WORDS = "the second node was re-synced"


@pytest.fixture
def unknown(chain: World, provider: Party, customer: Party) -> Payout:
    """Signed, lost on its way, and its second node does not reach back far enough to prove it."""
    payout, _ = released(provider, customer, 5 * USDC)
    chain.control.fault("sendTransaction", "lose_transaction", times=1)
    payout_advance(payout_id=payout.pk, now=clock.now())
    chain.control.tick(170)
    chain.control.prune(chain.rpc.slot(commitment="finalized"))
    assert drive(payout, chain) == Payout.Status.UNKNOWN
    payout.refresh_from_db()
    return payout


def unmoved(payout: Payout) -> bool:
    payout.refresh_from_db()
    state = PayoutAttempt.objects.get().state
    return (payout.status, state, in_flight_of(payout.party), payout.lease_token) == (
        "unknown",
        "unknown",
        5 * USDC,
        None,
    )


def test_without_proof_nothing_moves_and_with_it_it_is_signed_anew_and_paid_once(
    unknown: Payout, chain: World, olga: User
) -> None:
    with pytest.raises(Conflict, match=r"Nothing is proven yet, so nothing was moved: .* history from slot"):
        payout_resolve(payout=unknown, actor=olga, reason=WORDS, now=clock.now())
    assert unmoved(unknown)
    chain.control.heal()
    assert payout_resolve(payout=unknown, actor=olga, reason=WORDS, now=clock.now()).status == Payout.Status.READY
    event = StatusEvent.objects.filter(subject_id=unknown.pk).latest("id")
    assert event.actor == f"user:{olga.pk}" and WORDS in event.reason
    with pytest.raises(Conflict, match="not unknown"):
        payout_resolve(payout=unknown, actor=olga, reason=WORDS, now=clock.now())
    settle(unknown, chain)
    chain.finalize()
    assert list(unknown.attempts.order_by("n").values_list("state", flat=True)) == ["expired", "settled"]
    assert chain.usdc(unknown.address, "finalized") == 5 * USDC
    assert len(transfers_on_chain(unknown, chain)) == 1


def test_one_that_turned_up_is_settled_not_signed(chain: World, provider: Party, customer: Party, olga: User) -> None:
    payout, _ = released(provider, customer, 5 * USDC)
    payout_advance(payout_id=payout.pk, now=clock.now())
    chain.finalize()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE billing_payoutattempt SET state = 'unknown'")
        cursor.execute("UPDATE billing_payout SET status = 'unknown'")
    assert payout_resolve(payout=payout, actor=olga, reason=WORDS, now=clock.now()).status == Payout.Status.SETTLED
    assert (in_flight_of(provider), PayoutAttempt.objects.get().state) == (0, "settled")


def test_a_silent_node_proves_nothing(unknown: Payout, chain: World, olga: User) -> None:
    chain.control.heal()
    chain.control.fault("*", "http_503", times=1)
    with pytest.raises(NetworkUnavailable):
        payout_resolve(payout=unknown, actor=olga, reason=WORDS, now=clock.now())
    assert unmoved(unknown)


def test_strangers_the_payee_and_silence_are_refused(
    unknown: Payout, chain: World, olga: User, ada: User, eve: User
) -> None:
    chain.control.heal()
    ada.is_staff = True
    ada.save()
    ada.user_permissions.set(olga.user_permissions.all())
    for person in (eve, User.objects.get(pk=ada.pk)):
        with pytest.raises(Denied):
            payout_resolve(payout=unknown, actor=person, reason=WORDS, now=clock.now())
    with pytest.raises(Invalid) as refusal:
        payout_resolve(payout=unknown, actor=olga, reason=" ", now=clock.now())
    assert "reason" in refusal.value.fields
    Payout.objects.filter(pk=unknown.pk).update(lease_until=clock.now() + timedelta(minutes=1))
    with pytest.raises(Conflict, match="money worker"):
        payout_resolve(payout=unknown, actor=olga, reason=WORDS, now=clock.now())
    Payout.objects.filter(pk=unknown.pk).update(lease_until=None)
    assert unmoved(unknown)

"""Letting money go: how much in a day, by whom, and nothing that the signer would refuse on pay day."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.messages.storage.fallback import FallbackStorage
from django.db import IntegrityError, connection, transaction
from django.test import Client, RequestFactory

from accounts.models import Notification, Party, User
from accounts.reauthentication import second_factor_missing
from accounts.selectors import party_of
from billing.models import DestinationFreeze, Payout, PayoutApproval
from billing.selectors import payable_of, why_not_yet
from billing.services import (
    payout_approve,
    payout_cancel,
    payout_run_start,
    policies_demo_install,
    policy_set,
    runs_alert,
)
from core import clock
from core.errors import Conflict, Denied
from providers.services import provider_reinstate, provider_suspend
from tests.billing.chain.world import USDC, World
from tests.billing.payouts import next_monday, payable, run_on, settle, wallet_for
from tests.factories.cast import reauthenticated
from tests.factories.providers import provider_make

pytestmark = pytest.mark.django_db
SignedIn = Callable[[User], Client]


@pytest.fixture
def waiting(chain: World, provider: Party, customer: Party, eve: User) -> list[Payout]:
    """Two payouts of 5 USDC each that two people have to release."""
    policies_demo_install(now=clock.now())
    policy_set(name="automatic_release", value=0, valid_from=clock.now())
    for party in (provider, party_of(eve)):
        wallet_for(party)
        payable(party, customer, 5 * USDC)
    for run in run_on(next_monday(clock.now())):
        payout_run_start(run_id=run.pk, now=clock.now())
    found = list(Payout.objects.order_by("pk"))
    assert [payout.status for payout in found] == ["awaiting_release", "awaiting_release"]
    return found


def limit(name: str, micro: int, actor: User | None = None) -> None:
    policy_set(name=name, value=micro, valid_from=clock.now(), actor=actor)


def test_a_day_has_its_limit_over_all_payouts(waiting: list[Payout], olga: User, otto: User) -> None:
    limit("release_limit_micro", 9 * USDC)
    first, second = waiting
    for who in (olga, otto):
        payout_approve(payout=first, approver=who, now=clock.now())
    payout_approve(payout=second, approver=olga, now=clock.now())
    with pytest.raises(
        Conflict, match=r"5\.00 USDC were released within 24 hours, this one is 5\.00; allowed in all: 9\.00"
    ):
        payout_approve(payout=second, approver=otto, now=clock.now())
    second.refresh_from_db()
    assert (second.status, second.approvals.count()) == (Payout.Status.AWAITING_RELEASE, 1)
    tomorrow = clock.now() + timedelta(hours=24, seconds=1)
    payout_approve(payout=second, approver=otto, now=tomorrow)
    second.refresh_from_db()
    assert (second.status, second.released_at) == (Payout.Status.READY, tomorrow)


def test_what_was_cancelled_after_its_release_does_not_count(waiting: list[Payout], olga: User, otto: User) -> None:
    limit("release_limit_micro", 9 * USDC)
    for payout in waiting:
        for who in (olga, otto):
            payout_approve(payout=payout, approver=who, now=clock.now())
        payout.refresh_from_db()
        assert payout.status == Payout.Status.READY
        payout_cancel(payout=payout, reason="wrong wallet", now=clock.now())


def test_who_moved_a_limit_or_cleared_the_payees_freeze_approves_nothing_for_a_week(
    waiting: list[Payout], olga: User, otto: User
) -> None:
    first, second = waiting
    limit("payout_limit_micro", 50_000 * USDC, actor=olga)
    with pytest.raises(Denied, match="limit"):
        payout_approve(payout=first, approver=olga, now=clock.now())
    DestinationFreeze.objects.create(
        party=first.party, destination=first.destination, cleared_at=clock.now(), cleared_by=otto, reason="spoke"
    )
    with pytest.raises(Denied, match="freeze"):
        payout_approve(payout=first, approver=otto, now=clock.now())
    payout_approve(payout=second, approver=otto, now=clock.now())  # another payee's
    later = clock.now() + timedelta(days=7, seconds=1)
    for who in (olga, otto):
        payout_approve(payout=first, approver=who, now=later)
    first.refresh_from_db()
    assert first.status == Payout.Status.READY


def refused(statement: str, payout: Payout) -> bool:
    """Whether the database refuses; nothing stays either way."""
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement, [payout.pk])
            transaction.set_rollback(True)
    except IntegrityError as error:
        return "two people" in str(error)
    return False


def test_the_database_wants_two_people_who_are_not_the_payee(
    chain: World, provider: Party, customer: Party, ada: User, olga: User, otto: User
) -> None:
    monday = next_monday(clock.now())
    for name in ("maturing_seconds", "maturing_new_provider_seconds", "destination_cool_down_seconds"):
        policy_set(name=name, value=0, valid_from=clock.now())
    wallet_for(provider)
    payable(provider, customer, 50 * USDC)
    run_on(monday)
    payout = Payout.objects.get()
    release = "UPDATE billing_payout SET status = 'ready', released_at = now() WHERE id = %s"
    assert refused(release, payout)
    for who, answer in ((ada, True), (olga, True), (otto, False)):
        PayoutApproval.objects.create(payout=payout, approver=who, binding=b"x" * 32, created_at=clock.now())
        assert refused(release, payout) is answer


@pytest.mark.parametrize("name", ["release_limit_micro", "payout_limit_micro"])
def test_what_is_more_than_a_payout_may_be_follows_with_the_next_run(
    chain: World, provider: Party, customer: Party, name: str
) -> None:
    policies_demo_install(now=clock.now())
    limit(name, 3 * USDC)
    wallet_for(provider)
    payable(provider, customer, 5 * USDC)
    assert any("At most 3.00 USDC" in reason for reason in why_not_yet(provider, clock.now()))
    monday = next_monday(clock.now())
    for run in run_on(monday):
        payout_run_start(run_id=run.pk, now=clock.now())
    first = Payout.objects.get()
    assert (first.amount_micro, payable_of(provider)) == (3 * USDC, 2 * USDC)
    settle(first, chain)  # the signer agrees
    run_on(monday + timedelta(days=7))
    assert sorted(Payout.objects.values_list("amount_micro", flat=True)) == [2 * USDC, 3 * USDC]


def test_a_suspended_provider_is_owed_and_not_paid(
    chain: World, provider: Party, customer: Party, ada: User, olga: User
) -> None:
    policies_demo_install(now=clock.now())
    found = provider_make(ada, reviewer=olga)
    wallet_for(provider)
    payable(provider, customer, 5 * USDC)
    provider_suspend(provider=found, actor=olga, reason="a look", now=clock.now())
    monday = next_monday(clock.now())
    run_on(monday)
    assert (Payout.objects.count(), payable_of(provider), provider.status) == (0, 5 * USDC, Party.Status.ACTIVE)
    provider_reinstate(provider=found, actor=olga, reason="all is well", now=clock.now())
    run_on(monday + timedelta(days=7))
    assert Payout.objects.get().amount_micro == 5 * USDC


# -- The second factor ----------------------------------------------------------------------------------------------


def approve(client: Client, payout: Payout) -> str:
    data = {"action": "approve", "_selected_action": str(payout.pk)}
    return str(client.post("/admin/billing/payout/", data)["Location"])


def test_an_approval_needs_the_second_factor_just_now(
    waiting: list[Payout], signed_in: SignedIn, olga: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    Authenticator.objects.create(user=olga, type=Authenticator.Type.TOTP, data={"secret": "x"})
    client = signed_in(olga)
    assert "/account/2fa/reauthenticate/?next=" in approve(client, waiting[0])
    reauthenticated(client, olga)  # a password is not enough
    assert "/account/2fa/reauthenticate/" in approve(client, waiting[0])
    reauthenticated(client, olga, method="mfa")
    real = time.time
    monkeypatch.setattr("accounts.reauthentication.time.time", lambda: real() + 301)
    assert "/account/2fa/reauthenticate/" in approve(client, waiting[0])
    assert not PayoutApproval.objects.exists()
    monkeypatch.undo()
    approve(client, waiting[0])
    assert PayoutApproval.objects.get().approver == olga


def test_without_a_second_factor_nobody_approves_outside_of_the_demo(
    waiting: list[Payout], olga: User, rf: RequestFactory, settings: Any
) -> None:
    request = rf.post("/admin/billing/payout/")
    request.user, request.session = olga, {}
    request._messages = FallbackStorage(request)
    assert second_factor_missing(request) is None
    settings.DEMO = False
    answer = second_factor_missing(request)
    assert answer is not None and answer["Location"] == "/account/2fa/"


# -- The alert ------------------------------------------------------------------------------------------------------


def test_a_run_that_is_not_released_by_noon_is_said_once_a_day(waiting: list[Payout], olga: User, ravi: User) -> None:
    monday = next_monday(clock.now()).replace(hour=11, minute=59)
    assert runs_alert(now=monday) == 0
    noon = monday + timedelta(minutes=1)
    assert [runs_alert(now=noon), runs_alert(now=noon + timedelta(hours=3))] == [1, 0]
    letter = Notification.objects.get(kind="run_waits")
    assert letter.user == olga and "Payouts that wait: 2, 10.00 USDC" in letter.body
    assert runs_alert(now=noon + timedelta(days=1)) == 1
    for payout in waiting:
        payout_cancel(payout=payout, reason="not today", now=noon)
    assert runs_alert(now=noon + timedelta(days=2)) == 0

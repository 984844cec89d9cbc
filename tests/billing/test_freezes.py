"""A change of destination: who is asked, who is told, and the link that stops payouts without a log-in."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pytest
from allauth.account.models import EmailAddress
from django.core import signing
from django.db import IntegrityError, connection, transaction
from django.test import Client

from accounts.models import AccountChange, Mail, Party, User
from accounts.sealing import unseal
from accounts.services import account_change_record
from billing.models import Destination, DestinationFreeze, Payout, PayoutAttempt
from billing.selectors import why_not_yet
from billing.services import (
    destination_freeze,
    destination_freeze_clear,
    payout_advance,
    payout_hold_place,
    payout_hold_release,
    policies_demo_install,
    policy_set,
)
from billing.services.payee_freezes import LINK_DAYS, LINK_SALT, freeze_token
from core import clock
from core.errors import Conflict, Denied, Invalid, NotFound
from tests.billing.chain.world import USDC, World
from tests.billing.payouts import next_monday, payable, released, run_on, settle, wallet_for
from tests.factories.cast import reauthenticated
from tests.factories.providers import provider_make

pytestmark = pytest.mark.django_db
SignedIn = Callable[[User], Client]
FREEZE = re.compile(r"https?://[^/\s]+(/payout-freeze/\S+/)")


def letters() -> dict[str, str]:
    """The latest letter about a new destination, by address."""
    found = {}
    for mail in Mail.objects.order_by("pk"):
        letter = unseal(bytes(mail.sealed))
        if "payout address" in letter["subject"]:
            found[mail.to] = letter["body"]
    return found


def link_in(letter: str) -> str:
    match = FREEZE.search(letter)
    assert match is not None, letter
    return match[1]


def test_the_link_in_the_letter_stops_payouts_without_a_log_in(
    chain: World, provider: Party, customer: Party, client: Client, olga: User
) -> None:
    payout, _ = released(provider, customer, 5 * USDC)
    where = link_in(letters()["ada@example.com"])
    shown = client.get(where)  # as a mail scanner would
    assert shown.status_code == 200 and payout.address in shown.content.decode()
    assert shown["Referrer-Policy"] == "no-referrer"
    assert not DestinationFreeze.objects.exists()
    for _ in range(2):
        assert "Payouts are stopped" in client.post(where).content.decode()
    freeze = DestinationFreeze.objects.get()
    assert payout_advance(payout_id=payout.pk, now=clock.now()) == Payout.Status.BLOCKED
    assert not PayoutAttempt.objects.exists()
    assert any("frozen" in reason for reason in why_not_yet(provider, clock.now()))
    destination_freeze_clear(freeze=freeze, actor=olga, reason="spoke by telephone", now=clock.now())
    settle(payout, chain)


def test_while_it_is_frozen_nothing_is_planned_and_the_destination_stays(
    chain: World, provider: Party, customer: Party
) -> None:
    policies_demo_install(now=clock.now())
    wallet_for(provider)
    payable(provider, customer, 5 * USDC)
    destination_freeze(token=freeze_token(Destination.objects.get(), now=clock.now()), now=clock.now())
    run_on(next_monday(clock.now()))
    assert not Payout.objects.exists()
    with pytest.raises(Conflict, match="frozen"):
        wallet_for(provider)  # whoever stole the log-in tries a third one
    assert Destination.objects.count() == 1


@pytest.mark.parametrize("what", ["nonsense", "expired", "purpose"])
def test_no_other_token_freezes(chain: World, provider: Party, client: Client, what: str) -> None:
    policies_demo_install(now=clock.now())
    wallet_for(provider)
    destination, now = Destination.objects.get(), clock.now()
    token = {
        "nonsense": "nonsense",
        "expired": freeze_token(destination, now=now - timedelta(days=LINK_DAYS, seconds=1)),
        "purpose": signing.dumps([str(destination.pk), "2100-01-01T00:00:00"], salt=f"{LINK_SALT}.other"),
    }[what]
    assert client.post(f"/payout-freeze/{token}/").status_code == 404
    with pytest.raises(NotFound):
        destination_freeze(token=token, now=now)
    assert not DestinationFreeze.objects.exists()


def test_who_gave_up_an_address_lately_is_told_too(chain: World, provider: Party, ada: User) -> None:
    policies_demo_install(now=clock.now())
    for address, days in (("ada-old@example.com", 29), ("ada-older@example.com", 31)):
        at = clock.now() - timedelta(days=days)
        account_change_record(user=ada, what=AccountChange.What.EMAIL, former_email=address, now=at)
    wallet_for(provider)
    assert set(letters()) == {"ada@example.com", "ada-old@example.com"}
    assert link_in(letters()["ada-old@example.com"])


def test_staff_clear_a_freeze_with_a_reason_and_not_their_own(
    chain: World, provider: Party, ada: User, eve: User, olga: User
) -> None:
    policies_demo_install(now=clock.now())
    wallet_for(provider)
    freeze = destination_freeze(token=freeze_token(Destination.objects.get(), now=clock.now()), now=clock.now())
    ada.is_staff = True
    ada.save()
    ada.user_permissions.set(olga.user_permissions.all())
    for who in (eve, User.objects.get(pk=ada.pk)):
        with pytest.raises(Denied):
            destination_freeze_clear(freeze=freeze, actor=who, reason="please", now=clock.now())
    with pytest.raises(Invalid):
        destination_freeze_clear(freeze=freeze, actor=olga, reason=" ", now=clock.now())
    assert DestinationFreeze.objects.get().cleared_at is None
    destination_freeze_clear(freeze=freeze, actor=olga, reason="spoke by telephone", now=clock.now())
    with pytest.raises(Conflict):
        destination_freeze_clear(freeze=freeze, actor=olga, reason="again", now=clock.now())
    statement = "UPDATE billing_destinationfreeze SET cleared_at = NULL, cleared_by_id = NULL, reason = ''"
    with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)


@pytest.mark.parametrize("stop", ["freeze", "hold"])
def test_the_database_refuses_to_sign_for_who_is_stopped(
    chain: World, provider: Party, customer: Party, monkeypatch: pytest.MonkeyPatch, stop: str
) -> None:
    payout, _ = released(provider, customer, 5 * USDC)
    now = clock.now()
    if stop == "freeze":
        destination_freeze(token=freeze_token(payout.destination, now=now), now=now)
    else:
        payout_hold_place(party=provider, source="test", reason="a look", now=now)
    monkeypatch.setattr("billing.services.payouts.advance.payee_obstacle", lambda payout, now: None)
    assert payout_advance(payout_id=payout.pk, now=now) == Payout.Status.READY
    assert not PayoutAttempt.objects.exists()


def test_who_changed_the_log_in_waits_like_a_new_destination(
    chain: World, provider: Party, customer: Party, ada: User
) -> None:
    payout, _ = released(provider, customer, 5 * USDC)
    day = 24 * 3600
    now = clock.now()
    policy_set(name="destination_cool_down_seconds", value=3 * day, valid_from=now)
    Destination.objects.update(usable_from=now)
    account_change_record(user=ada, what=AccountChange.What.PASSWORD_RESET, now=now)
    assert payout_advance(payout_id=payout.pk, now=now + timedelta(days=2)) == Payout.Status.BLOCKED
    payout.refresh_from_db()
    assert "Password, by a reset" in payout.note
    assert payout_advance(payout_id=payout.pk, now=now + timedelta(days=3, seconds=1)) == Payout.Status.SUBMITTED


def test_a_held_payee_keeps_its_money_until_the_hold_is_released(
    chain: World, provider: Party, customer: Party
) -> None:
    policies_demo_install(now=clock.now())
    wallet_for(provider)
    payable(provider, customer, 5 * USDC)
    for _ in range(2):
        payout_hold_place(party=provider, source="provider:1", reason="the provider is suspended", now=clock.now())
    monday = next_monday(clock.now())
    run_on(monday)
    assert not Payout.objects.exists()
    assert any("held by the operator" in reason for reason in why_not_yet(provider, clock.now()))
    payout_hold_release(source="provider:1", now=clock.now())
    run_on(monday + timedelta(days=7))
    assert Payout.objects.get().amount_micro == 5 * USDC


# -- The pages ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/provider/earnings/destination/", "/provider/earnings/bank/"])
def test_a_change_asks_once_more_who_it_is(signed_in: SignedIn, ada: User, olga: User, path: str) -> None:
    provider_make(ada, reviewer=olga)
    client = signed_in(ada)
    asked = client.post(path, {"address": "x", "account": "x"})
    assert asked.status_code == 302 and "/account/reauthenticate/" in asked["Location"]
    reauthenticated(client, ada)
    assert client.post(path, {"address": "x", "account": "x"}).status_code == 400


def test_the_operator_clears_a_freeze_on_its_page(
    chain: World, provider: Party, signed_in: SignedIn, olga: User
) -> None:
    policies_demo_install(now=clock.now())
    wallet_for(provider)
    freeze = destination_freeze(token=freeze_token(Destination.objects.get(), now=clock.now()), now=clock.now())
    client = signed_in(olga)
    page = client.get(f"/admin/billing/destinationfreeze/{freeze.pk}/change/").content.decode()
    assert "Clear the freeze" in page
    client.post(f"/admin/billing/destinationfreeze/{freeze.pk}/do/clear/", {"reason": "spoke by telephone"})
    freeze.refresh_from_db()
    assert (freeze.cleared_by, freeze.reason) == (olga, "spoke by telephone")


def test_an_address_that_is_given_up_on_its_page_is_remembered(signed_in: SignedIn, ada: User) -> None:
    EmailAddress.objects.create(user=ada, email="ada-new@example.com", verified=True, primary=False)
    client = reauthenticated(signed_in(ada), ada)
    client.post("/account/email/", {"action_primary": "", "email": "ada-new@example.com"})
    ada.refresh_from_db()
    assert ada.email == "ada-new@example.com"
    change = AccountChange.objects.get()
    assert (change.user, change.what, change.former_email) == (ada, "email", "ada@example.com")

"""Books from a backup: frozen until every payment on chain has its place in them, and nobody is paid a second time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction
from django.test import Client

from accounts.models import Party, User
from billing.models import ChainMatch, Payout, PayoutAttempt, PayoutSwitch
from billing.selectors import in_flight_of, payable_of
from billing.selectors.payouts import payouts_frozen
from billing.services import (
    payment_adopt,
    payout_advance,
    payout_run_start,
    payouts_freeze,
    payouts_match,
    policies_demo_install,
    treasury_difference,
    treasury_read,
)
from billing.services.payouts.advance import PayoutPass
from core import clock
from core.errors import Conflict, Denied, Invalid
from tests.billing.chain.world import USDC, World
from tests.billing.payouts import next_monday, payable, released, run_on, settle, transfers_on_chain, wallet_for

pytestmark = pytest.mark.django_db
AMOUNT = 5 * USDC


class Restored(Exception):
    """Raised to take the books back to where the block began, as a backup does; the chain stays where it is."""


def forget(happened: Callable[[], object]) -> None:
    with pytest.raises(Restored), transaction.atomic():
        happened()
        raise Restored


def restored() -> None:
    payouts_freeze(frozen=True, restored=True, reason="restored from last night's backup", now=clock.now())


@pytest.fixture
def payout(chain: World, provider: Party, customer: Party) -> Payout:
    """Released before the backup, and paid after it."""
    treasury_read(now=clock.now())
    found, _ = released(provider, customer, AMOUNT)
    forget(lambda: settle(found, chain))
    chain.finalize()
    assert len(transfers_on_chain(found, chain)) == 1
    return Payout.objects.get(pk=found.pk)


@pytest.fixture
def paid_and_gone(chain: World, provider: Party, customer: Party) -> str:
    """Planned and paid after the backup: the signature of a payment of which the books know nothing at all."""
    treasury_read(now=clock.now())
    policies_demo_install(now=clock.now())
    wallet_for(provider)
    payable(provider, customer, AMOUNT)
    signatures: list[str] = []

    def pay() -> None:
        for run in run_on(next_monday(clock.now())):
            payout_run_start(run_id=run.pk, now=clock.now())
        settle(Payout.objects.get(), chain)
        signatures.extend(PayoutAttempt.objects.values_list("signature", flat=True))

    forget(pay)
    chain.finalize()
    assert not Payout.objects.exists()
    return signatures[0]


def test_a_forgotten_payout_is_settled_by_what_the_chain_has(
    chain: World, payout: Payout, provider: Party, olga: User
) -> None:
    restored()
    found = payouts_match(now=clock.now())
    assert (found.matched, found.open) == (0, 1)
    (finding,) = found.findings
    assert (finding["what"], finding["payout"], finding["amount_micro"]) == ("forgotten", str(payout.pk), AMOUNT)
    with pytest.raises(Conflict, match="not matched"):
        payouts_freeze(frozen=False, reason="go on", now=clock.now())
    assert (
        payment_adopt(signature=finding["signature"], actor=olga, reason="as matched", now=clock.now()) == "forgotten"
    )
    payout.refresh_from_db()
    assert (payout.status, in_flight_of(provider), payable_of(provider)) == (Payout.Status.SETTLED, 0, 0)
    again = payouts_match(now=clock.now())
    assert (again.matched, again.open, again.findings) == (1, 0, [])
    payouts_freeze(frozen=False, reason="matched", now=clock.now())
    assert payouts_frozen() is None
    assert treasury_difference() == []
    assert len(transfers_on_chain(payout, chain)) == 1


def test_a_foreign_payment_is_taken_from_what_its_payee_is_owed(
    chain: World, paid_and_gone: str, provider: Party, olga: User
) -> None:
    restored()
    (finding,) = payouts_match(now=clock.now()).findings
    assert (finding["what"], finding["signature"], finding["amount_micro"]) == ("foreign", paid_and_gone, AMOUNT)
    assert payment_adopt(signature=paid_and_gone, actor=olga, reason="as matched", now=clock.now()) == "foreign"
    assert payable_of(provider) == 0
    assert payouts_match(now=clock.now()).open == 0
    payouts_freeze(frozen=False, reason="matched", now=clock.now())
    run_on(next_monday(clock.now()))
    assert not Payout.objects.exists()
    assert treasury_difference() == []


def test_one_to_an_address_that_is_nobodys_is_the_operators(
    chain: World, provider: Party, customer: Party, olga: User
) -> None:
    """The backup is older than the wallet."""
    treasury_read(now=clock.now())
    policies_demo_install(now=clock.now())
    payable(provider, customer, AMOUNT)

    def pay() -> None:
        wallet_for(provider)
        for run in run_on(next_monday(clock.now())):
            payout_run_start(run_id=run.pk, now=clock.now())
        settle(Payout.objects.get(), chain)

    forget(pay)
    chain.finalize()
    (finding,) = payouts_match(now=clock.now()).findings
    payment_adopt(signature=finding["signature"], actor=olga, reason="as matched", now=clock.now())
    assert payable_of(provider) == AMOUNT  # it still says so: a person has to speak with the payee
    assert treasury_difference() == []


def test_books_that_forgot_stop_by_themselves_before_they_pay_again(chain: World, payout: Payout) -> None:
    """Nobody remembered to freeze: the signer's journal knows more than the books."""
    later = clock.now() + timedelta(hours=1)
    assert payout_advance(payout_id=payout.pk, now=later) == Payout.Status.READY
    assert not PayoutAttempt.objects.exists()
    switch = payouts_frozen()
    assert switch is not None and switch.restored and "backup" in switch.reason
    assert payouts_match(now=later).open == 1


def test_books_that_lost_the_whole_payout_stop_before_the_next_one(
    chain: World, paid_and_gone: str, provider: Party
) -> None:
    for run in run_on(next_monday(clock.now())):
        payout_run_start(run_id=run.pk, now=clock.now())
    twin = Payout.objects.get()
    assert payout_advance(payout_id=twin.pk, now=clock.now()) == Payout.Status.READY
    assert payouts_frozen() is not None and not PayoutAttempt.objects.exists()


def test_a_worker_that_died_between_signing_and_recording_stops_nothing(
    chain: World, provider: Party, customer: Party, monkeypatch: pytest.MonkeyPatch
) -> None:
    payout, _ = released(provider, customer, AMOUNT)

    def die(*_: object) -> None:
        raise RuntimeError("killed")

    monkeypatch.setattr(PayoutPass, "record", die)
    with pytest.raises(RuntimeError):
        payout_advance(payout_id=payout.pk, now=clock.now())
    monkeypatch.undo()
    chain.control.tick()
    settle(payout, chain)
    assert payouts_frozen() is None and len(transfers_on_chain(payout, chain)) == 1


def test_the_database_refuses_a_thaw_before_the_match(payout: Payout) -> None:
    restored()
    columns = "(frozen, restored, reason, actor, at)"
    thaw = f"INSERT INTO billing_payoutswitch {columns} VALUES (false, false, 'x', 'x', now())"
    with pytest.raises(IntegrityError, match="not matched"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(thaw)
    payouts_match(now=clock.now())  # it found something
    payouts_freeze(frozen=True, reason="another reason on top", now=clock.now())
    with pytest.raises(IntegrityError, match="not matched"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(thaw)
    assert PayoutSwitch.objects.count() == 2


def test_a_freeze_without_a_restore_is_thawed_as_ever(chain: World) -> None:
    payouts_freeze(frozen=True, reason="a look", now=clock.now())
    payouts_freeze(frozen=False, reason="looked", now=clock.now())
    assert payouts_frozen() is None


def test_what_is_settled_as_it_is_on_chain_is_matched_and_nothing_is_booked_twice(
    chain: World, provider: Party, customer: Party, olga: User, eve: User
) -> None:
    payout, _ = released(provider, customer, AMOUNT)
    settle(payout, chain)
    chain.finalize()
    found = payouts_match(now=clock.now())
    assert (found.matched, found.open) == (1, 0)
    signature = payout.attempts.get().signature
    with pytest.raises(Denied):
        payment_adopt(signature=signature, actor=eve, reason="please", now=clock.now())
    for nothing in (signature, "1" * 88):
        with pytest.raises(Invalid):
            payment_adopt(signature=nothing, actor=olga, reason="please", now=clock.now())


def test_nodes_that_disagree_match_nothing(chain: World, payout: Payout) -> None:
    chain.control.fork(40)
    with pytest.raises(Conflict, match="do not agree"):
        payouts_match(now=clock.now())
    assert not ChainMatch.objects.exists()


def test_the_command_and_the_page_show_what_was_found(
    chain: World, payout: Payout, signed_in: Callable[[User], Client], olga: User
) -> None:
    out = StringIO()
    call_command("payouts", "freeze", "restored", "--restored", stdout=out)
    with pytest.raises(CommandError, match="stay frozen"):
        call_command("payouts", "match", stdout=out)
    assert f"forgotten {ChainMatch.objects.get().findings[0]['signature']}: 5.00 USDC" in out.getvalue()
    with pytest.raises(CommandError, match="not matched"):
        call_command("payouts", "thaw", "go on", stdout=out)
    client, match = signed_in(olga), ChainMatch.objects.get()
    page = client.get(f"/admin/billing/chainmatch/{match.pk}/change/").content.decode()
    assert match.findings[0]["signature"] in page and "forgotten" in page
    data = {"signature": match.findings[0]["signature"], "reason": "as matched"}
    client.post(f"/admin/billing/chainmatch/{match.pk}/do/book/", data)
    client.post("/admin/billing/chainmatch/do/match/")
    assert ChainMatch.objects.order_by("-created_at").first().open == 0  # type: ignore[union-attr]
    call_command("payouts", "thaw", "matched", stdout=out)
    assert payouts_frozen() is None

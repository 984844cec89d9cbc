"""Payouts: planned once per period, paid once, settled when final; what stands in the way says so."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction

from accounts.models import Notification, Party, User
from billing.models import Payout, PayoutAttempt, PayoutRun, Transfer
from billing.selectors import in_flight_of, next_payout_on, payable_of, payouts_of, why_not_yet
from billing.selectors.balances import house_balance
from billing.services import (
    earnings_mature,
    payout_advance,
    payout_approve,
    payout_cancel,
    payout_cycle_set,
    payout_run_start,
    payouts_freeze,
    payouts_run,
    payouts_sweep,
    policies_demo_install,
    policy_set,
)
from billing.services.payouts import plan, release
from billing.services.payouts.advance import PayoutPass
from billing.services.payouts.screening import DENIED_FILE
from core import clock
from core.errors import Conflict, Denied, Invalid, MoveNotAllowed
from tests.billing.chain.world import USDC, World
from tests.billing.payouts import (
    next_monday,
    payable,
    released,
    run_on,
    settle,
    transfers_on_chain,
    wallet_for,
)
from tests.factories.billing import earned

pytestmark = pytest.mark.django_db


# -- The run --------------------------------------------------------------------------------------------------------


def test_a_payout_is_paid_exactly_once(chain: World, provider: Party, customer: Party) -> None:
    payout, wallet = released(provider, customer, 7 * USDC + 3)
    assert (payable_of(provider), in_flight_of(provider)) == (0, 7 * USDC + 3)
    settle(payout, chain)
    for run in run_on(next_monday(clock.now())):  # the second run of the same day
        payout_run_start(run_id=run.pk, now=clock.now())
    payouts_sweep(now=clock.now() + timedelta(hours=2))
    chain.finalize()
    assert chain.usdc(str(wallet.pubkey()), "finalized") == 7 * USDC + 3
    assert len(transfers_on_chain(payout, chain)) == 1
    assert Payout.objects.count() == 1
    (row,) = payouts_of(provider)
    assert (row.status, row.signature, row.amount_micro) == ("settled", payout.attempts.get().signature, 7 * USDC + 3)
    assert house_balance("treasury") == 7 * USDC + 3
    assert (house_balance("network_fee", "SOL"), house_balance("rent", "SOL")) == (-5_000, -2_039_280)
    assert "payout_settled" in Notification.objects.values_list("kind", flat=True)
    assert PayoutRun.objects.get(kind="weekly").status == PayoutRun.Status.FINISHED


def test_a_run_pays_what_matured_before_the_period_ended(chain: World, provider: Party, customer: Party) -> None:
    policies_demo_install(now=clock.now())
    wallet_for(provider)
    monday = datetime(2026, 12, 7, tzinfo=UTC)
    for day, amount in ((monday - timedelta(seconds=1), 3 * USDC), (monday, 5 * USDC)):
        earned(provider, customer, amount, fee_bps=0, at=day)
        earnings_mature(now=day)
    weekly, _ = payouts_run(as_of=monday.date(), now=monday + timedelta(hours=1))
    assert [payout.amount_micro for payout in weekly.payouts.all()] == [3 * USDC]
    assert payable_of(provider) == 5 * USDC


def test_a_run_is_planned_once_and_a_crash_in_between_resumes(
    chain: World, provider: Party, customer: Party, monkeypatch: pytest.MonkeyPatch
) -> None:
    policies_demo_install(now=clock.now())
    for party in (provider, customer):
        wallet_for(party)
        payable(party, customer, 4 * USDC)
    reserve, done = plan._reserve, []

    def crash(*arguments: Any) -> Any:
        if done:
            raise RuntimeError("killed")
        done.append(reserve(*arguments))
        return done[0]

    monkeypatch.setattr(plan, "_reserve", crash)
    with pytest.raises(RuntimeError):
        run_on(next_monday(clock.now()))
    monkeypatch.undo()
    assert Payout.objects.count() == 1
    runs = run_on(next_monday(clock.now()))
    assert Payout.objects.count() == 2
    assert [run.status for run in runs] == ["planned", "planned"]
    assert {run.pk for run in runs} == {run.pk for run in run_on(next_monday(clock.now()))}
    assert Payout.objects.count() == 2


def test_monthly_providers_are_paid_by_the_monthly_run(chain: World, provider: Party, customer: Party) -> None:
    at = datetime(2026, 11, 18, tzinfo=UTC)
    policies_demo_install(now=at)
    wallet_for(provider)
    with pytest.raises(Invalid):
        payout_cycle_set(party=provider, kind="daily", now=at)
    payout_cycle_set(party=provider, kind="monthly", now=at)  # from the next week on
    earned(provider, customer, 9 * USDC, fee_bps=0, at=at)
    earnings_mature(now=at)
    december = datetime(2026, 12, 1, tzinfo=UTC)
    weekly, _ = payouts_run(as_of=december.date(), now=december)  # the week that began on November 23rd
    assert not weekly.payouts.exists()
    january = datetime(2027, 1, 4, tzinfo=UTC)
    _, monthly = payouts_run(as_of=january.date(), now=january)
    assert [(row.amount_micro, row.run.kind) for row in monthly.payouts.all()] == [(9 * USDC, "monthly")]


def test_who_changes_to_monthly_in_the_middle_of_a_month_is_paid_by_that_month(
    chain: World, provider: Party, customer: Party
) -> None:
    at = datetime(2026, 12, 2, tzinfo=UTC)
    policies_demo_install(now=at)
    wallet_for(provider)
    payout_cycle_set(party=provider, kind="monthly", now=at)  # from December 7th on
    earned(provider, customer, 2 * USDC, fee_bps=0, at=at)
    earnings_mature(now=at)
    weekly, _ = payouts_run(as_of=datetime(2026, 12, 7, tzinfo=UTC).date(), now=datetime(2026, 12, 7, 1, tzinfo=UTC))
    assert [row.amount_micro for row in weekly.payouts.all()] == [2 * USDC]
    later = datetime(2026, 12, 9, tzinfo=UTC)
    earned(provider, customer, 9 * USDC, fee_bps=0, at=later)
    earnings_mature(now=later)
    promised = next_payout_on(provider, later)
    weekly, monthly = payouts_run(as_of=promised, now=datetime(2027, 1, 1, 1, tzinfo=UTC))
    assert not weekly.payouts.exists()
    assert [row.amount_micro for row in monthly.payouts.all()] == [9 * USDC]


def test_a_run_that_wrong_books_kept_from_planning_is_planned_when_its_period_is_long_over(
    provider: Party, customer: Party, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = datetime(2026, 12, 7, 1, tzinfo=UTC)
    monkeypatch.setattr(plan, "drift_first", lambda: "billing.zero_sum: transfer x: USDC adds up to 1, not 0")
    weekly, _ = payouts_run(as_of=first.date(), now=first)
    assert (weekly.status, weekly.planned_at) == ("paused", None)
    monkeypatch.undo()
    second = first + timedelta(days=7)
    payouts_run(as_of=second.date(), now=second)
    weekly.refresh_from_db()
    assert (weekly.status, weekly.planned_at) == ("planned", second)


def test_a_future_day_is_the_demos_privilege(settings: Any) -> None:
    settings.DEMO = False
    with pytest.raises(Invalid) as refusal:
        run_on(next_monday(clock.now()))
    assert "as_of" in refusal.value.fields
    assert not PayoutRun.objects.exists()


def test_why_not_yet(chain: World, provider: Party, customer: Party) -> None:
    payable(provider, customer, 12_400_000)  # waits seven days: no demo rows here
    assert why_not_yet(provider, clock.now()) == [
        "Below the minimum: 0.00 of 25.00 USDC.",
        "12.40 USDC are still pending.",
        "No payout destination is set: neither a wallet nor a bank account.",
    ]
    later = clock.now() + timedelta(days=8)
    earnings_mature(now=later)
    wallet_for(provider)
    first, second = why_not_yet(provider, clock.now())
    assert first == "Below the minimum: 12.40 of 25.00 USDC." and "can be used from" in second
    policies_demo_install(now=clock.now())
    assert why_not_yet(provider, clock.now() + timedelta(days=9)) == []
    payouts_freeze(frozen=True, reason="restore", now=clock.now())
    assert len(why_not_yet(provider, clock.now() + timedelta(days=9))) == 1


# -- Release --------------------------------------------------------------------------------------------------------


@pytest.fixture
def waiting(chain: World, provider: Party, customer: Party) -> Payout:
    policies_demo_install(now=clock.now())
    policy_set(name="automatic_release", value=0, valid_from=clock.now())
    wallet_for(provider)
    payable(provider, customer, 5 * USDC)
    for run in run_on(next_monday(clock.now())):
        payout_run_start(run_id=run.pk, now=clock.now())
    payout = Payout.objects.get()
    assert payout.status == Payout.Status.AWAITING_RELEASE
    return payout


def test_two_people_release(waiting: Payout, olga: User, ravi: User, ada: User, eve: User, chain: World) -> None:
    assert payout_advance(payout_id=waiting.pk, now=clock.now()) == "busy"
    with pytest.raises(Denied):
        payout_approve(payout=waiting, approver=eve, now=clock.now())
    payout_approve(payout=waiting, approver=olga, now=clock.now())
    with pytest.raises(Conflict):
        payout_approve(payout=waiting, approver=olga, now=clock.now())
    for staff in (ada, eve):
        staff.is_staff = True
        staff.user_permissions.set(olga.user_permissions.all())
        staff.save()
    with pytest.raises(Denied, match="themselves"):
        payout_approve(payout=waiting, approver=User.objects.get(pk=ada.pk), now=clock.now())
    waiting.refresh_from_db()
    assert waiting.status == Payout.Status.AWAITING_RELEASE
    payout_approve(payout=waiting, approver=User.objects.get(pk=eve.pk), now=clock.now())
    settle(waiting, chain)
    assert waiting.run.status in {"released", "planned"}


def test_two_people_do_not_stand_in_for_the_pre_flight(
    waiting: Payout, olga: User, eve: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    eve.is_staff = True
    eve.user_permissions.set(olga.user_permissions.all())
    eve.save()
    payout_approve(payout=waiting, approver=olga, now=clock.now())
    monkeypatch.setattr(release, "drift_first", lambda: "billing.zero_sum: transfer x: USDC adds up to 1, not 0")
    assert payout_run_start(run_id=waiting.run_id, now=clock.now()).status == "paused"
    with pytest.raises(Conflict, match="the books are wrong"):
        payout_approve(payout=waiting, approver=User.objects.get(pk=eve.pk), now=clock.now())
    waiting.refresh_from_db()
    assert (waiting.status, waiting.approvals.count()) == (Payout.Status.AWAITING_RELEASE, 1)
    monkeypatch.undo()
    payout_run_start(run_id=waiting.run_id, now=clock.now())
    waiting = Payout.objects.get()
    payout_approve(payout=waiting, approver=User.objects.get(pk=eve.pk), now=clock.now())
    waiting.refresh_from_db()
    assert waiting.status == Payout.Status.READY


def test_a_waiting_payout_can_be_cancelled_and_its_money_is_payable_again(waiting: Payout, provider: Party) -> None:
    payout_cancel(payout=waiting, reason="wrong wallet", now=clock.now())
    assert (payable_of(provider), in_flight_of(provider)) == (5 * USDC, 0)
    with pytest.raises(MoveNotAllowed):
        payout_cancel(payout=waiting, reason="again", now=clock.now())
    assert payable_of(provider) == 5 * USDC


@pytest.mark.parametrize("state", ["signed", "sent", "unknown", "landed"])
def test_the_database_refuses_to_cancel_what_may_still_land(
    chain: World, provider: Party, customer: Party, state: str
) -> None:
    payout, _ = released(provider, customer, 5 * USDC)
    payout_advance(payout_id=payout.pk, now=clock.now())
    other = Transfer.objects.order_by("pk").first()
    assert other is not None
    with connection.cursor() as cursor:
        cursor.execute("UPDATE billing_payoutattempt SET state = %s", [state])
    refusal = pytest.raises(IntegrityError, match="cannot be cancelled")
    with refusal, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("UPDATE billing_payout SET status = 'cancelled', closing_transfer_id = %s", [other.pk])
    payout.refresh_from_db()
    with pytest.raises(MoveNotAllowed):
        payout_cancel(payout=payout, reason="please", now=clock.now())
    payout.status = Payout.Status.READY  # a stale belief gets past the table, and meets the database
    with pytest.raises(Conflict):
        payout_cancel(payout=payout, reason="please", now=clock.now())
    assert in_flight_of(provider) == 5 * USDC


def test_the_database_allows_one_live_attempt_and_none_for_a_closed_payout(
    chain: World, provider: Party, customer: Party
) -> None:
    payout, _ = released(provider, customer, 5 * USDC)
    payout_advance(payout_id=payout.pk, now=clock.now())
    copy = PayoutAttempt.objects.get()
    copy.pk, copy.n, copy.signature = None, 2, "x"
    with pytest.raises(IntegrityError, match="billing_attempt_one_live"), transaction.atomic():
        PayoutAttempt.objects.create(
            **{f.attname: getattr(copy, f.attname) for f in copy._meta.fields if f.name != "id"}
        )
    settle(payout, chain)
    copy.state = "signed"
    with pytest.raises(IntegrityError, match="nothing may be signed"), transaction.atomic():
        PayoutAttempt.objects.create(
            **{f.attname: getattr(copy, f.attname) for f in copy._meta.fields if f.name != "id"}
        )
    for statement in (
        "UPDATE billing_payout SET status = 'ready', closing_transfer_id = NULL",
        "UPDATE billing_payout SET amount_micro = 1",
        "UPDATE billing_payoutattempt SET raw = 'x'",
        "DELETE FROM billing_payoutattempt",
    ):
        with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement)


# -- What stands in the way -----------------------------------------------------------------------------------------


def test_a_run_that_the_wallet_cannot_pay_is_paused_and_says_so(chain: World, provider: Party, customer: Party) -> None:
    policies_demo_install(now=clock.now())
    for name in ("release_limit_micro", "payout_limit_micro"):
        policy_set(name=name, value=200_000 * USDC, valid_from=clock.now())
    wallet_for(provider)
    payable(provider, customer, 200_000 * USDC)
    (weekly, _) = run_on(next_monday(clock.now()))
    run = payout_run_start(run_id=weekly.pk, now=clock.now())
    assert run.status == "paused" and "100,000.00 USDC, 200,000.00 are on their way" in run.pause_reason
    chain.control.mint(chain.hot_wallet, 200_000 * USDC)
    chain.finalize()
    assert payout_run_start(run_id=weekly.pk, now=clock.now()).status == "released"


def test_frozen_payouts_sign_nothing(chain: World, provider: Party, customer: Party) -> None:
    payout, _ = released(provider, customer, 5 * USDC)
    payouts_freeze(frozen=True, reason="restored from a backup", now=clock.now())
    assert payout_advance(payout_id=payout.pk, now=clock.now()) == "ready"
    assert not PayoutAttempt.objects.exists()
    payouts_freeze(frozen=False, reason="memos matched", now=clock.now())
    settle(payout, chain)


def test_a_freeze_that_comes_while_the_node_answers_still_counts(
    chain: World, provider: Party, customer: Party, monkeypatch: pytest.MonkeyPatch
) -> None:
    payout, _ = released(provider, customer, 5 * USDC)
    simulate = PayoutPass.simulate

    def slow(self: PayoutPass, net: Any, unsigned: Any) -> None:
        simulate(self, net, unsigned)
        payouts_freeze(frozen=True, reason="stop", now=clock.now())

    monkeypatch.setattr(PayoutPass, "simulate", slow)
    assert payout_advance(payout_id=payout.pk, now=clock.now()) == "ready"
    assert not PayoutAttempt.objects.exists()


def test_no_screener_no_payout_and_a_listed_address_is_not_paid(
    chain: World, provider: Party, customer: Party, settings: Any, tmp_path: Path
) -> None:
    payout, wallet = released(provider, customer, 5 * USDC)
    settings.PAYOUT_SCREENER = ""
    assert payout_advance(payout_id=payout.pk, now=clock.now()) == "blocked"
    settings.PAYOUT_SCREENER = "billing.services.payouts.screening.LocalListScreener"
    settings.DATA_DIR = tmp_path
    (tmp_path / DENIED_FILE).write_text(f"{wallet.pubkey()}\n")
    later = clock.now() + timedelta(hours=2)
    assert payout_advance(payout_id=payout.pk, now=later) == "blocked"
    payout.refresh_from_db()
    assert "local list" in payout.note
    assert not PayoutAttempt.objects.exists()
    (tmp_path / DENIED_FILE).unlink()
    settle(payout, chain)


def test_a_frozen_token_account_blocks_before_anything_is_signed(
    chain: World, provider: Party, customer: Party
) -> None:
    payout, wallet = released(provider, customer, 5 * USDC)
    chain.control.mint(str(wallet.pubkey()), 1)
    chain.control.tick()
    chain.control.freeze(str(wallet.pubkey()))
    chain.finalize()
    assert payout_advance(payout_id=payout.pk, now=clock.now()) == "blocked"
    assert not PayoutAttempt.objects.exists()
    chain.control.freeze(str(wallet.pubkey()), thaw=True)
    chain.finalize()
    settle(payout, chain)


# -- The command ------------------------------------------------------------------------------------------------------


def test_the_command_plans_tells_and_freezes(chain: World, provider: Party, customer: Party) -> None:
    policies_demo_install(now=clock.now())
    wallet_for(provider)
    payable(provider, customer, 5 * USDC)

    def run(*words: str) -> str:
        out = StringIO()
        call_command("payouts", *words, stdout=out)
        return out.getvalue()

    monday = next_monday(clock.now()).date().isoformat()
    assert "1 payouts, 5.00 USDC" in run("run", "--as-of", monday)
    assert "awaiting_release" in run("status")
    run("freeze", "looking at something")
    assert "frozen: looking at something" in run("status")
    run("thaw", "looked")
    assert "not frozen" in run("status")
    with pytest.raises(CommandError, match="a date such as"):
        run("run", "--as-of", "Monday")
    with pytest.raises(CommandError, match="still open"):
        run("run", "--as-of", monday, "--wait", "0.01")

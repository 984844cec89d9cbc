"""Worked examples, with the figures done by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from accounts.models import Party, User
from accounts.selectors import party_of
from billing.models import Payout
from billing.selectors import balance_of, earnings_by_day, earnings_of, in_flight_of, payable_of, payouts_of, pending_of
from billing.selectors.balances import house_balance
from billing.services import (
    EarningInput,
    earnings_mature,
    hold_extend,
    hold_place,
    hold_release,
    payout_advance,
    payout_run_start,
    payouts_run,
    policy_set,
    service_credit_post,
    usage_post,
)
from core.ids import uuid7
from core.money import charge_micro
from tests.billing.chain.world import USDC, World
from tests.billing.payouts import wallet_for
from tests.factories.billing import funded

pytestmark = pytest.mark.django_db

H100, A100 = 2_490_000, 1_290_000
"""micro-USDC per GPU-hour."""
MONDAY = datetime(2026, 12, 7, tzinfo=UTC)
QUARTER = timedelta(minutes=15)


def rent(
    customer: Party, provider: Party, gpus: list[tuple[UUID, str]], rate: int, start: datetime, seconds: int
) -> list[str]:
    """A rental as metering runs it: an hour held, posted every 15 minutes cumulatively, the rest given back at the end."""
    rental, hold = uuid7(), f"rental:{uuid7()}"
    hour = charge_micro(rate_micro=rate, gpus=len(gpus), seconds=3600)
    hold_place(party=customer, amount_micro=hour, source=hold, now=start)
    charged, sources = 0, []
    for elapsed in [*range(900, seconds, 900), seconds]:
        due = charge_micro(rate_micro=rate, gpus=len(gpus), seconds=elapsed)
        at = start + timedelta(seconds=elapsed)
        source = f"usage:{rental}:{elapsed}"
        usage_post(
            source=source,
            customer=customer,
            provider=provider,
            amount_micro=due - charged,
            fee_bps=1_000,
            lines=[EarningInput(gpu, model, rental) for gpu, model in gpus],
            effective_at=at,
            now=at,
            hold_source=hold,
        )
        charged = due
        sources.append(source)
        if elapsed < seconds:
            hold_extend(source=hold, amount_micro=hour, now=at)
    hold_release(source=hold, now=start + timedelta(seconds=seconds))
    return sources


def test_a_providers_week_of_earnings(chain: World, ada: User, ravi: User, eve: User) -> None:
    """Ada rents out two H100 at 2.49 and one A100 at 1.29 an hour; the fee is 10 %.

    Tuesday    Ravi, both H100, 10 h 0 min 7 s: 36,007 s · 2 · 2.49 / 3600      = 49.809683 USDC
    Wednesday  Eve, the A100, 5 h 30 min: 19,800 s · 1.29 / 3600                =  7.095000 USDC
    Thursday   Ravi, one H100, 1 h, and the machine fails: the hour is given back  2.490000 − 2.490000
    """
    provider, customer, other = party_of(ada), party_of(ravi), party_of(eve)
    policy_set(name="maturing_new_provider_seconds", value=48 * 3600, valid_from=MONDAY - timedelta(days=30))
    policy_set(name="payout_minimum_weekly_micro", value=25 * USDC, valid_from=MONDAY - timedelta(days=30))
    policy_set(name="automatic_release", value=1, valid_from=MONDAY - timedelta(days=30))
    policy_set(name="destination_cool_down_seconds", value=0, valid_from=MONDAY - timedelta(days=30))
    wallet = wallet_for(provider)
    week = MONDAY - timedelta(days=7)
    funded(customer, 100 * USDC, now=week)
    funded(other, 20 * USDC, now=week)
    first, second, third = uuid7(), uuid7(), uuid7()
    both = [(first, "h100-sxm-80gb"), (second, "h100-sxm-80gb")]
    rent(customer, provider, both, H100, week + timedelta(days=1), 36_007)
    rent(other, provider, [(third, "a100-sxm-80gb")], A100, week + timedelta(days=2), 19_800)
    failed = rent(customer, provider, [(first, "h100-sxm-80gb")], H100, week + timedelta(days=3), 3_600)
    credited_at = week + timedelta(days=3, hours=1)
    service_credit_post(source="credit:attempt:3", of_sources=failed, amount_micro=2_490_000, now=credited_at)

    # What the customers have left, and that nothing stayed set aside.
    assert balance_of(customer).balance_micro == 100 * USDC - 49_809_683
    assert balance_of(other).balance_micro == 20 * USDC - 7_095_000
    assert balance_of(customer).held_micro == balance_of(other).held_micro == 0

    # What Ada earned: every charge is split by itself, so the fee is 10 % of each to the micro-USDC.
    found = earnings_of(provider, week, MONDAY)
    fee = house_balance("platform_fee")
    assert found.total_micro + fee == 49_809_683 + 7_095_000
    assert abs(found.total_micro - (49_809_683 + 7_095_000) * 9 // 10) <= 50  # one micro-USDC per posting at most
    by_model = {row.gpu_model: (row.gpus, row.amount_micro) for row in found.by_model}
    assert by_model["a100-sxm-80gb"] == (1, 6_385_500)
    assert by_model["h100-sxm-80gb"] == (2, found.total_micro - 6_385_500)
    h100s = [row.amount_micro for row in found.by_gpu if row.gpu_model == "h100-sxm-80gb"]
    assert sum(h100s) == by_model["h100-sxm-80gb"][1] and max(h100s) - min(h100s) <= 50
    assert sum(amount for _, amount in earnings_by_day(provider, week, MONDAY)) == found.total_micro

    # Until Monday all of it has matured: two days after Thursday is Saturday.
    earnings_mature(now=week + timedelta(days=4))
    assert 0 < payable_of(provider) < found.total_micro
    earnings_mature(now=MONDAY - QUARTER)
    assert (payable_of(provider), pending_of(provider)) == (found.total_micro, 0)

    # Monday's run, and the wallet on chain holds exactly that.
    weekly, _ = payouts_run(as_of=MONDAY.date(), now=MONDAY + timedelta(minutes=5))
    payout_run_start(run_id=weekly.pk, now=MONDAY + timedelta(minutes=5))
    payout = Payout.objects.get()
    assert (payout.amount_micro, payable_of(provider), in_flight_of(provider)) == (
        found.total_micro,
        0,
        found.total_micro,
    )
    payout_advance(payout_id=payout.pk, now=MONDAY + timedelta(minutes=6))
    chain.finalize()
    payout_advance(payout_id=payout.pk, now=MONDAY + timedelta(minutes=9))
    assert [row.status for row in payouts_of(provider)] == ["settled"]
    assert chain.usdc(str(wallet.pubkey()), "finalized") == found.total_micro
    assert in_flight_of(provider) == 0


def test_a_change_of_wallet_touches_no_open_payout(chain: World, ada: User, ravi: User) -> None:
    provider, customer = party_of(ada), party_of(ravi)
    for name, value in (
        ("maturing_new_provider_seconds", 0),
        ("destination_cool_down_seconds", 0),
        ("automatic_release", 1),
    ):
        policy_set(name=name, value=value, valid_from=MONDAY - timedelta(days=30))
    old = wallet_for(provider)
    rent(customer_with(customer, 200), provider, [(uuid7(), "h100-sxm-80gb")], H100, MONDAY - timedelta(days=2), 72_000)
    earnings_mature(now=MONDAY - timedelta(hours=1))
    weekly, _ = payouts_run(as_of=MONDAY.date(), now=MONDAY)
    new = wallet_for(provider)
    payout_run_start(run_id=weekly.pk, now=MONDAY)
    payout = Payout.objects.get()
    payout_advance(payout_id=payout.pk, now=MONDAY)
    chain.finalize()
    assert payout_advance(payout_id=payout.pk, now=MONDAY + timedelta(minutes=5)) == "settled"
    assert (chain.usdc(str(old.pubkey())), chain.usdc(str(new.pubkey()))) == (44_820_000, 0)


def customer_with(party: Party, usdc: int) -> Party:
    return funded(party, usdc * USDC, now=MONDAY - timedelta(days=6))

"""Usage: the customer pays, the provider earns less the fee, per GPU, to the last micro-USDC."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accounts.models import Party
from billing.fees import fee_split, line_split
from billing.models import CreditedUsage, EarningLine, Posting, Transfer
from billing.selectors import balance_of, earnings_of, fee_bps_at, payable_of, pending_of
from billing.selectors.balances import house_balance
from billing.services import (
    EarningInput,
    SourceTaken,
    UsageInput,
    earnings_mature,
    fee_rate_set,
    hold_place,
    policies_demo_install,
    policy_set,
    service_credit_post,
    usage_post,
    usage_post_many,
)
from core import clock
from core.errors import Conflict, Denied, Invalid, NotFound
from core.ids import uuid7
from tests.factories.billing import earned, funded

pytestmark = pytest.mark.django_db


@given(st.integers(0, 10**12), st.integers(0, 10_000), st.integers(1, 16))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_split_adds_up(amount: int, bps: int, gpus: int) -> None:
    provider, platform = fee_split(amount, fee_bps=bps)
    assert provider + platform == amount and min(provider, platform) >= 0
    lines = line_split(provider, gpus=gpus)
    assert sum(lines) == provider and max(lines) - min(lines) <= 1


def test_a_charge_goes_to_provider_and_platform(provider: Party, customer: Party) -> None:
    funded(customer, 1_000)
    gpus = [(uuid7(), "h100-sxm-80gb"), (uuid7(), "h100-sxm-80gb"), (uuid7(), "a100-sxm-80gb")]
    at = clock.now()
    earned(provider, customer, 999, gpus=gpus, at=at)
    assert balance_of(customer).balance_micro == 1
    assert (pending_of(provider), house_balance("platform_fee")) == (899, 100)
    found = earnings_of(provider, at, at + timedelta(seconds=1))
    assert found.total_micro == 899
    assert sorted(row.amount_micro for row in found.by_gpu) == [299, 300, 300]
    assert [(row.gpu_model, row.gpus, row.amount_micro) for row in found.by_model] == [
        ("h100-sxm-80gb", 2, 600),
        ("a100-sxm-80gb", 1, 299),
    ]
    assert earnings_of(provider, at - timedelta(days=1), at).total_micro == 0


def test_usage_may_push_the_customer_below_zero(provider: Party, customer: Party) -> None:
    funded(customer, 10)
    earned(provider, customer, 30)
    assert balance_of(customer).available_micro == -20


def test_nothing_used_is_nothing_posted(provider: Party, customer: Party) -> None:
    line = EarningInput(uuid7(), "rtx-4090", uuid7())
    for amount in (0, -1):
        given = UsageInput("usage:1", customer, provider, amount, 1_000, [line], clock.now())
        if amount == 0:
            assert [answer.transfer_id for answer in usage_post_many(items=[given], now=clock.now())] == [None]
        else:
            (answer,) = usage_post_many(items=[given], now=clock.now())
            assert isinstance(answer.error, Invalid)
    assert not Transfer.objects.exists()


def test_a_source_is_charged_once_and_another_request_under_it_is_named(provider: Party, customer: Party) -> None:
    gpu, rental = uuid7(), uuid7()

    def post(amount: int) -> Transfer | None:
        return usage_post(
            source="usage:1",
            customer=customer,
            provider=provider,
            amount_micro=amount,
            fee_bps=1_000,
            lines=[EarningInput(gpu, "rtx-4090", rental)],
            effective_at=clock.now(),
            now=clock.now(),
        )

    first, again = post(100), post(100)
    assert first is not None and again is not None and first.pk == again.pk
    with pytest.raises(SourceTaken):
        post(101)
    assert balance_of(customer).balance_micro == -100
    assert EarningLine.objects.count() == 1


def test_one_that_cannot_be_charged_leaves_the_others_alone(provider: Party, customer: Party) -> None:
    def item(source: str, amount: int) -> UsageInput:
        line = EarningInput(uuid7(), "rtx-4090", uuid7())
        return UsageInput(source, customer, provider, amount, 1_000, [line], clock.now())

    items = [item(f"usage:{n}", 10) for n in range(120)]
    items[60] = item("usage:60", 2**62)  # its sum leaves the range of the column
    items[61] = item("usage:61", 2**62)
    items[70] = item("usage:3", 11)  # another request under a source of the same run
    answers = usage_post_many(items=items, now=clock.now())
    assert [n for n, answer in enumerate(answers) if answer.error] == [61, 70]
    assert isinstance(answers[70].error, SourceTaken)
    assert sum(answer.created for answer in answers) == 118


def test_earnings_mature_when_their_time_has_come(provider: Party, customer: Party) -> None:
    at = clock.now()
    earned(provider, customer, 100, at=at)
    assert earnings_mature(now=at + timedelta(days=6)) == 0
    assert earnings_mature(now=at + timedelta(days=7)) == 1
    assert earnings_mature(now=at + timedelta(days=7)) == 0
    assert (pending_of(provider), payable_of(provider)) == (0, 90)


def test_an_old_provider_waits_two_days_and_policy_rows_change_that(provider: Party, customer: Party) -> None:
    at = clock.now()
    earned(provider, customer, 100, at=at)
    later = at + timedelta(days=61)
    earned(provider, customer, 100, at=later)
    policy_set(name="maturing_seconds", value=0, valid_from=later + timedelta(hours=1))
    earned(provider, customer, 100, at=later + timedelta(hours=2))
    waits = [line.matures_at - line.earned_at for line in EarningLine.objects.order_by("id")]
    assert waits == [timedelta(days=7), timedelta(days=2), timedelta(0)]


def test_policies_are_known_dated_and_not_loosened_outside_the_demo(settings: object) -> None:
    now = clock.now()
    with pytest.raises(Invalid):
        policy_set(name="nonsense", value=1, valid_from=now)
    with pytest.raises(Invalid):
        policy_set(name="maturing_seconds", value=-1, valid_from=now)
    policies_demo_install(now=now)
    policies_demo_install(now=now + timedelta(days=1))
    settings.DEMO = False  # type: ignore[attr-defined]
    with pytest.raises(Denied):
        policy_set(name="automatic_release", value=1, valid_from=now)
    with pytest.raises(Denied):
        policies_demo_install(now=now)


def test_the_fee_is_a_dated_row() -> None:
    now = clock.now()
    fee_rate_set(bps=500, valid_from=now + timedelta(days=1), now=now)
    assert [fee_bps_at(now), fee_bps_at(now + timedelta(days=1))] == [1_000, 500]
    with pytest.raises(Invalid):
        fee_rate_set(bps=500, valid_from=now - timedelta(days=1), now=now)
    with pytest.raises(Invalid):
        fee_rate_set(bps=10_001, valid_from=now, now=now)


def test_a_service_credit_reverses_both_legs_in_proportion(provider: Party, customer: Party) -> None:
    funded(customer, 1_000)
    gpus = [(uuid7(), "rtx-4090"), (uuid7(), "rtx-4090")]
    sources = [earned(provider, customer, 100, gpus=gpus, source=f"usage:{n}").source for n in range(2)]
    for _ in range(2):
        credit = service_credit_post(source="credit:1", of_sources=sources, amount_micro=50, now=clock.now())
    assert balance_of(customer).balance_micro == 850
    assert (pending_of(provider), house_balance("platform_fee")) == (180 - 45, 20 - 5)
    assert sorted(credit.earning_lines.values_list("amount_micro", flat=True)) == [-12, -11, -11, -11]
    assert CreditedUsage.objects.count() == 2
    with pytest.raises(SourceTaken):
        service_credit_post(source="credit:1", of_sources=sources, amount_micro=51, now=clock.now())
    with pytest.raises(Conflict):
        service_credit_post(source="credit:2", of_sources=sources[:1], amount_micro=1, now=clock.now())
    with pytest.raises(NotFound):
        service_credit_post(source="credit:3", of_sources=["usage:9"], amount_micro=1, now=clock.now())
    assert balance_of(customer).balance_micro == 850


def test_a_credit_of_matured_earnings_comes_out_of_payable(provider: Party, customer: Party) -> None:
    at = clock.now()
    source = earned(provider, customer, 100, at=at).source
    earnings_mature(now=at + timedelta(days=8))
    with pytest.raises(Invalid):
        service_credit_post(source="credit:1", of_sources=[source], amount_micro=101, now=clock.now())
    service_credit_post(source="credit:1", of_sources=[source], amount_micro=100, now=clock.now())
    assert (payable_of(provider), pending_of(provider), balance_of(customer).balance_micro) == (0, 0, 0)
    assert Posting.objects.filter(account__kind="platform_fee").count() == 2


def test_a_batch_of_fifty_costs_no_more_queries_than_one(
    provider: Party, customer: Party, django_assert_max_num_queries: Any
) -> None:
    funded(customer, 10_000)
    for n in range(50):
        hold_place(party=customer, amount_micro=20, source=f"hold:{n}", now=clock.now())
    earned(provider, customer, 1)

    def items(first: int, count: int) -> list[UsageInput]:
        lines = [EarningInput(uuid7(), "rtx-4090", uuid7())]
        return [
            UsageInput(f"usage:{n}", customer, provider, 10, 1_000, lines, clock.now(), f"hold:{n}")
            for n in range(first, first + count)
        ]

    queries = 15
    with django_assert_max_num_queries(queries):
        usage_post_many(items=items(0, 1), now=clock.now())
    with django_assert_max_num_queries(queries):
        usage_post_many(items=items(1, 49), now=clock.now())
    assert balance_of(customer).held_micro == 50 * 10


def test_two_charges_of_one_batch_share_a_hold(provider: Party, customer: Party) -> None:
    funded(customer, 100)
    hold_place(party=customer, amount_micro=60, source="hold:1", now=clock.now())
    lines = [EarningInput(uuid7(), "rtx-4090", uuid7())]
    item = UsageInput("usage:1", customer, provider, 40, 1_000, lines, clock.now(), "hold:1")
    other = UsageInput("usage:2", customer, provider, 40, 1_000, lines, clock.now(), "hold:1")
    answers = usage_post_many(items=[item, other, item], now=clock.now())
    assert [answer.created for answer in answers] == [True, True, False]
    assert (balance_of(customer).balance_micro, balance_of(customer).held_micro) == (20, 0)

"""A euro rate counts when two people have looked at it, it is of today, and it is near the last one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from accounts.models import Party, User
from billing.models import EurRate, Payout, PayoutRun
from billing.selectors import payable_of, why_not_yet
from billing.selectors.rates import eur_rate_usable
from billing.services import eur_rate_confirm, eur_rate_enter
from core.errors import Conflict, Denied, DomainError, Invalid
from tests.billing.bank import MONDAY, approved, bank_account, bank_settings, owed, planned, policies, rate
from tests.factories.cast import person

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def enter(actor: User, reference: str = "1.1702", *, at: datetime = MONDAY - HOUR, source: str = "ECB") -> EurRate:
    return eur_rate_enter(reference=reference, source=source, published_at=at, actor=actor, now=MONDAY)


def test_it_takes_two_people(olga: User, otto: User) -> None:
    entered = enter(olga)
    assert (entered.reference_micro, entered.margin_bps) == (1_170_200, 50)
    assert eur_rate_usable(MONDAY) is None
    with pytest.raises(Denied, match="somebody else"):
        eur_rate_confirm(rate=entered, actor=olga, now=MONDAY)
    eur_rate_confirm(rate=entered, actor=otto, now=MONDAY)
    assert eur_rate_confirm(rate=entered, actor=otto, now=MONDAY).confirmed_by == otto  # a second click
    assert eur_rate_usable(MONDAY) == entered
    assert eur_rate_usable(MONDAY + 23 * HOUR) is None  # published an hour before


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"at": MONDAY - 24 * HOUR}, "published_at"),
        ({"at": MONDAY + timedelta(seconds=1)}, "published_at"),
        ({"source": "  "}, "source"),
        ({"reference": "0"}, "reference"),
        ({"reference": "1.2054"}, "reference"),
        ({"reference": "1.1350"}, "reference"),
        ({"reference": "11.702"}, "reference"),
    ],
)
def test_an_old_or_a_strange_rate_is_refused_by_field(
    olga: User, otto: User, change: dict[str, Any], field: str
) -> None:
    rate(olga, otto, "1.1702")
    with pytest.raises(Invalid) as refusal:
        enter(olga, **change)
    assert list(refusal.value.fields) == [field]
    assert EurRate.objects.count() == 1


def test_three_per_cent_is_the_edge(olga: User, otto: User) -> None:
    rate(olga, otto, "1.0000")
    assert enter(olga, "1.0300") and enter(olga, "0.9700")
    for wrong in ("1.030001", "0.969999"):
        with pytest.raises(Invalid):
            enter(olga, wrong)


def test_it_is_checked_again_when_it_is_confirmed(olga: User, otto: User) -> None:
    old = enter(olga)
    with pytest.raises(Invalid) as refusal:
        eur_rate_confirm(rate=old, actor=otto, now=MONDAY + 23 * HOUR)
    assert "published_at" in refusal.value.fields
    far = enter(olga, "1.2500")  # there was no last one when it was entered
    rate(olga, otto, "1.1702")
    with pytest.raises(Invalid) as refusal:
        eur_rate_confirm(rate=far, actor=otto, now=MONDAY)
    assert "reference" in refusal.value.fields
    first, second = enter(olga), enter(otto)
    eur_rate_confirm(rate=first, actor=otto, now=MONDAY)
    with pytest.raises(Conflict):
        eur_rate_confirm(rate=first, actor=person("Third", is_staff=True, permissions=True), now=MONDAY)
    assert second.confirmed_at is None


@pytest.mark.parametrize("who", ["ada", "eve"])
def test_others_enter_and_confirm_nothing(request: pytest.FixtureRequest, who: str, olga: User) -> None:
    somebody: User = request.getfixturevalue(who)
    entered = enter(olga)
    verbs: list[Callable[[], object]] = [
        lambda: enter(somebody),
        lambda: eur_rate_confirm(rate=entered, actor=somebody, now=MONDAY),
    ]
    for verb in verbs:
        with pytest.raises(DomainError):
            verb()
    assert EurRate.objects.filter(confirmed_at__isnull=True).count() == 1


def test_bank_payouts_wait_for_a_rate_and_wallets_do_not(
    settings: Any, olga: User, otto: User, provider: Party, customer: Party
) -> None:
    bank_settings(settings)
    policies()
    bank_account(provider)
    owed(provider, customer, 40_000_000)
    planned()
    run = PayoutRun.objects.get(kind="weekly")
    assert (run.planned_at, run.bank_planned_at) == (MONDAY, None) and not Payout.objects.exists()
    assert "Bank payouts wait for the euro rate of the day." in why_not_yet(provider, MONDAY)
    rate(olga, otto)
    later = MONDAY + HOUR
    planned(later)
    run.refresh_from_db()
    payout = Payout.objects.get()
    assert (run.bank_planned_at, payout.run, payout.eur_rate) == (later, run, EurRate.objects.get())
    planned(later)
    assert Payout.objects.count() == 1
    assert payable_of(provider) == 40_000_000 - payout.amount_micro
    # A later rate does not touch what was planned at this one.
    rate(olga, otto, "1.1800", now=later)
    assert approved(payout, olga, otto, now=later).eur_rate == payout.eur_rate


def test_below_the_minimum_or_a_cent_nothing_is_planned(
    settings: Any, olga: User, otto: User, provider: Party, customer: Party
) -> None:
    bank_settings(settings)
    policies()
    bank_account(provider)
    owed(provider, customer, 24_999_999)
    rate(olga, otto)
    planned()
    assert not Payout.objects.exists() and payable_of(provider) == 24_999_999
    assert set(PayoutRun.objects.values_list("bank_planned_at", flat=True)) == {MONDAY}

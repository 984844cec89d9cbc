"""Holds: one conditional UPDATE grants what is there, once per source."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import patch

import pytest
from django.db import transaction

from accounts.models import Party
from billing.models import Account, Hold
from billing.selectors import balance_of
from billing.services import EarningInput, SourceTaken, hold_extend, hold_place, hold_release, holds, usage_post
from core import clock
from core.errors import Conflict, InsufficientFunds, Invalid, NotFound
from core.ids import uuid7
from tests.factories.billing import funded

pytestmark = pytest.mark.django_db


def charge(customer: Party, provider: Party, amount: int, source: str, hold: str | None) -> None:
    usage_post(
        source=source,
        customer=customer,
        provider=provider,
        amount_micro=amount,
        fee_bps=1_000,
        lines=[EarningInput(uuid7(), "rtx-4090", uuid7())],
        effective_at=clock.now(),
        now=clock.now(),
        hold_source=hold,
    )


def test_a_hold_takes_from_what_is_available_and_release_gives_it_back(customer: Party) -> None:
    funded(customer, 100)
    hold_place(party=customer, amount_micro=60, source="job:1", now=clock.now())
    assert (balance_of(customer).balance_micro, balance_of(customer).available_micro) == (100, 40)
    hold_release(source="job:1", now=clock.now())
    hold_release(source="job:1", now=clock.now())
    assert balance_of(customer).available_micro == 100
    assert Hold.objects.get().state == Hold.State.RELEASED


def test_a_hold_beyond_the_balance_is_refused_and_moves_nothing(customer: Party) -> None:
    funded(customer, 100)
    with pytest.raises(InsufficientFunds) as refusal:
        hold_place(party=customer, amount_micro=101, source="job:1", now=clock.now())
    assert "amount" in refusal.value.fields
    assert not Hold.objects.exists()
    assert balance_of(customer).held_micro == 0


def test_someone_without_an_account_has_nothing_to_hold(customer: Party) -> None:
    with pytest.raises(InsufficientFunds):
        hold_place(party=customer, amount_micro=1, source="job:1", now=clock.now())
    with pytest.raises(Invalid):
        hold_place(party=customer, amount_micro=0, source="job:1", now=clock.now())


def test_a_source_holds_once(customer: Party) -> None:
    funded(customer, 100)
    first = hold_place(party=customer, amount_micro=60, source="job:1", now=clock.now())
    again = hold_place(party=customer, amount_micro=60, source="job:1", now=clock.now())
    assert first.pk == again.pk
    assert balance_of(customer).held_micro == 60
    with pytest.raises(SourceTaken):
        hold_place(party=customer, amount_micro=61, source="job:1", now=clock.now())


def test_a_twin_with_another_amount_that_was_faster_leaves_nothing_set_aside(customer: Party) -> None:
    """In a caller's transaction that goes on: what this one had set aside goes back by itself."""
    funded(customer, 100)
    hold_place(party=customer, amount_micro=60, source="job:1", now=clock.now())
    blind = patch("billing.services.holds._earlier", _blind_at_first(holds._earlier))
    with blind, transaction.atomic(), pytest.raises(SourceTaken):
        hold_place(party=customer, amount_micro=30, source="job:1", now=clock.now())
    assert balance_of(customer).held_micro == 60


def _blind_at_first(look: Callable[..., Hold | None]) -> Callable[..., Hold | None]:
    """As if the twin's hold were written between our first look and our own."""
    looks = iter([lambda *_: None])
    return lambda *given: next(looks, look)(*given)


def test_an_extension_fills_up_to_the_amount(customer: Party, provider: Party) -> None:
    funded(customer, 200)
    hold_place(party=customer, amount_micro=60, source="job:1", now=clock.now())
    charge(customer, provider, 45, "usage:1", "job:1")
    assert (balance_of(customer).balance_micro, balance_of(customer).held_micro) == (155, 15)
    for _ in range(2):
        hold_extend(source="job:1", amount_micro=60, now=clock.now())
    assert balance_of(customer).held_micro == 60
    with pytest.raises(InsufficientFunds):
        hold_extend(source="job:1", amount_micro=156, now=clock.now())
    assert balance_of(customer).held_micro == 60
    hold_release(source="job:1", now=clock.now())
    with pytest.raises(Conflict):
        hold_extend(source="job:1", amount_micro=60, now=clock.now())
    with pytest.raises(NotFound):
        hold_extend(source="job:2", amount_micro=60, now=clock.now())


def test_usage_beyond_its_hold_is_still_charged(customer: Party, provider: Party) -> None:
    funded(customer, 100)
    hold_place(party=customer, amount_micro=60, source="job:1", now=clock.now())
    charge(customer, provider, 130, "usage:1", "job:1")
    assert (balance_of(customer).balance_micro, balance_of(customer).held_micro) == (-30, 0)
    released = hold_release(source="job:1", now=clock.now())
    assert released is not None and released.state == Hold.State.CAPTURED
    assert (released.captured_micro, released.placed_micro) == (60, 60)


def test_a_charge_repeated_takes_from_its_hold_once(customer: Party, provider: Party) -> None:
    funded(customer, 100)
    hold_place(party=customer, amount_micro=60, source="job:1", now=clock.now())
    gpu, rental, now = uuid7(), uuid7(), clock.now()
    for _ in range(2):
        usage_post(
            source="usage:1",
            customer=customer,
            provider=provider,
            amount_micro=20,
            fee_bps=1_000,
            lines=[EarningInput(gpu, "rtx-4090", rental)],
            effective_at=now,
            now=now,
            hold_source="job:1",
        )
    assert (balance_of(customer).balance_micro, balance_of(customer).held_micro) == (80, 40)


def test_a_hold_of_somebody_else_is_not_touched(customer: Party, provider: Party) -> None:
    funded(customer, 100)
    funded(provider, 100)
    hold_place(party=provider, amount_micro=60, source="job:1", now=clock.now())
    charge(customer, provider, 20, "usage:1", "job:1")
    assert Account.objects.get(owner=provider, kind="customer").held == 60

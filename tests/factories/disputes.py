"""Jobs that ran and were settled, and disputes about them: 3.6 USDC an hour is 1,000 micro a second, the fee 10 %."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from accounts.models import Party, User
from accounts.selectors import party_of
from billing.selectors import balance_of, payable_of, pending_of
from billing.selectors.balances import house_balance
from marketplace.models import Dispute, Rental
from marketplace.services import dispute_open, rental_settle
from tests.factories.marketplace import Story, story
from tests.marketplace.conftest import At

START = 100_000_000


def ran(who: User, at: At, *, seconds: int = 600, reason: str = "completed", **options: Any) -> Story:
    """A job that ran and is settled."""
    told = story(who, now=at(0), **options)
    told.agent.observe(told.attempt, "running", at=at(0), elapsed=0)
    exit_code = 0 if reason == "completed" else None
    told.agent.end(told.attempt, at=at(seconds), reason=reason, exit_code=exit_code, elapsed=seconds)
    assert rental_settle(rental_id=rental_of(told).pk, now=at(seconds + 1))
    return told.reload()


def rental_of(told: Story) -> Rental:
    return Rental.objects.get(attempt=told.attempt)


def seller(told: Story) -> Party:
    return told.listing.provider.party


def disputed(told: Story, who: User, now: datetime, **changed: str) -> Dispute:
    given = {"kind": "too_slow", "words": "It ran at a tenth of the speed."} | changed
    return dispute_open(attempt=told.attempt, customer=party_of(who), actor=who, now=now, **given)


def books_of(told: Story, who: User) -> tuple[int, int, int, int]:
    """What moved: the customer's balance since the start, pending, payable, fees."""
    provider = seller(told)
    return (
        balance_of(party_of(who)).balance_micro - START,
        pending_of(provider),
        payable_of(provider),
        house_balance("platform_fee"),
    )

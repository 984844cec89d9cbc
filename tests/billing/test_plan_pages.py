"""A run is planned page by page: everybody once, whatever the length of a page, and each by their own cycle."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from accounts.models import Party
from accounts.selectors import party_of
from billing.models import Payout
from billing.selectors.payouts import cycle_of, cycles_of
from billing.services import earnings_mature, payout_cycle_set, payouts_run
from billing.services.payouts import plan
from tests.factories.billing import USDC, earned
from tests.factories.cast import person
from tests.factories.documents import destination_for, rules

pytestmark = pytest.mark.django_db
MONDAY, JUNE = datetime(2026, 11, 9, tzinfo=UTC), datetime(2026, 6, 1, tzinfo=UTC)


@pytest.fixture
def five(customer: Party) -> list[Party]:
    """Five providers who are owed 30 USDC each; the third and the fourth are paid by the month."""
    rules(JUNE)
    made = [party_of(person(f"Payee{number}")) for number in range(5)]
    for number, party in enumerate(made):
        destination_for(party, usable_from=JUNE)
        earned(party, customer, 30 * USDC, at=MONDAY - timedelta(days=3))
        if number in (2, 3):
            payout_cycle_set(party=party, kind="monthly", now=JUNE)
    earnings_mature(now=MONDAY - timedelta(days=2))
    return made


@pytest.mark.parametrize("page", [1, 2, 5, 500])
def test_everybody_is_planned_once(five: list[Party], page: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "PAGE", page)
    for _again in range(2):
        payouts_run(as_of=MONDAY.date(), now=MONDAY)
    paid = Payout.objects.filter(run__kind="weekly").values_list("party", flat=True)
    assert sorted(paid) == sorted(five[number].pk for number in (0, 1, 4))


def test_the_cycles_of_many_are_those_of_each(five: list[Party]) -> None:
    payout_cycle_set(party=five[2], kind="weekly", now=datetime(2026, 9, 1, tzinfo=UTC))
    for on in (JUNE.date(), datetime(2026, 7, 15, tzinfo=UTC).date(), MONDAY.date()):
        assert cycles_of(five, on) == {party.pk: cycle_of(party, on) for party in five}

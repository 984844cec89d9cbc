"""Staff plan the runs of a day from the admin; others do not, and a GET plans nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from accounts.models import User
from billing.models import PayoutRun
from core import clock

pytestmark = pytest.mark.django_db
SignedIn = Callable[[User], Client]
PAGE = "/admin/billing/payoutrun/plan/"


def test_a_day_is_planned_once(olga: User, signed_in: SignedIn) -> None:
    client = signed_in(olga)
    assert client.get(PAGE).status_code == 200
    assert not PayoutRun.objects.exists()
    today = clock.now().date().isoformat()
    for _ in range(2):
        assert client.post(PAGE, {"as_of": today}).status_code == 302
    assert sorted(PayoutRun.objects.values_list("kind", flat=True)) == ["monthly", "weekly"]
    assert "Plan payout runs" in client.get("/admin/billing/payoutrun/").content.decode()


def test_a_wrong_day_is_said_beside_the_field(olga: User, signed_in: SignedIn) -> None:
    page = signed_in(olga).post(PAGE, {"as_of": "soon"})
    assert "as_of" in page.context["form"].errors


@pytest.mark.parametrize("who", ["ada", "eve"])
def test_others_plan_nothing(who: str, request: pytest.FixtureRequest, signed_in: SignedIn) -> None:
    answer = signed_in(request.getfixturevalue(who)).post(PAGE, {"as_of": clock.now().date().isoformat()})
    assert answer.status_code in (302, 403, 404)
    assert not PayoutRun.objects.exists()

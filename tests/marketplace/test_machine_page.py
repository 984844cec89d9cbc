"""A machine's own page: its telemetry over each range, with silences as gaps, and nothing for other people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis
from django.test import Client

from accounts.models import User
from core import clock
from marketplace.views.telemetry import telemetry_panel
from providers.models import Machine
from reliability.selectors import live
from tests.factories.marketplace import machine_new, provider_new, provider_of_user
from tests.factories.reliability import PACE, day_of_telemetry

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clean_valkey")]
SignedIn = Callable[[User], Client]


@pytest.fixture
def machine(ada: User) -> Machine:
    return machine_new(provider_of_user(ada), gpus=2)


def figures(panel: Any, gpu: int = 0) -> dict[str, Any]:
    return {figure.label: figure for figure in panel.cards[gpu].figures}


def test_two_hours_are_live_and_longer_ranges_are_not(machine: Machine, ada: User, signed_in: SignedIn) -> None:
    now = clock.now()
    day_of_telemetry(machine, now=now)
    where = f"/provider/machines/{machine.pk}/"
    client = signed_in(ada)
    page = client.get(where)
    assert page.context["panel"].span == "2h"
    assert f'hx-get="{where}telemetry/" hx-trigger="every 15s"' in page.content.decode()
    for span in ("24h", "7d", "90d"):
        longer = client.get(where, {"span": span})
        assert longer.context["panel"].span == span
        assert "hx-trigger" not in longer.content.decode()
    assert client.get(where, {"span": "a year"}).context["panel"].span == "2h"
    part = client.get(f"{where}telemetry/").content.decode()
    assert part.lstrip().startswith('<div id="telemetry"') and "<html" not in part


@pytest.mark.parametrize("span", ["2h", "24h"])
def test_a_silence_is_a_gap_and_an_unknown_metric_has_no_chart(machine: Machine, span: str) -> None:
    now = clock.now()
    day_of_telemetry(machine, now=now)
    panel = telemetry_panel(machine, span=span, now=now)
    busy = figures(panel)["Busy"].chart
    inside = [(float(x), float(width)) for x, width in busy.gaps if 20 < float(x) < 550]
    assert len(inside) == 1, "one silence inside the day, drawn as one band"
    assert len(busy.lines) >= 2, "the line is broken there"
    assert figures(panel, gpu=1)["Power"].chart is None
    assert figures(panel)["Power"].latest.endswith(" W")


def test_a_machine_nobody_heard_of_has_no_figures(machine: Machine) -> None:
    panel = telemetry_panel(machine, span="7d", now=clock.now())
    assert {figure.chart for card in panel.cards for figure in card.figures} == {None}


def test_without_valkey_it_says_so_and_the_longer_ranges_work(
    machine: Machine, ada: User, signed_in: SignedIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    day_of_telemetry(machine, now=clock.now())

    def away() -> Any:
        raise redis.ConnectionError("away")

    monkeypatch.setattr(live, "valkey", away)
    client, where = signed_in(ada), f"/provider/machines/{machine.pk}/"
    assert "Live readings cannot be shown at the moment" in client.get(where).content.decode()
    longer = client.get(where, {"span": "24h"})
    assert longer.status_code == 200 and figures(longer.context["panel"])["Busy"].chart is not None


def test_another_providers_charts_are_not_there(machine: Machine, signed_in: SignedIn) -> None:
    other = provider_new("Olaf")
    client = signed_in(other.party.members.get().user)
    assert client.get(f"/provider/machines/{machine.pk}/telemetry/").status_code == 404


@pytest.mark.parametrize("gpus", [1, 6])
def test_queries_do_not_grow_with_the_cards(
    ada: User, signed_in: SignedIn, gpus: int, django_assert_max_num_queries: Callable[[int], Any]
) -> None:
    machine = machine_new(provider_of_user(ada), gpus=gpus)
    client = signed_in(ada)
    for span in ("2h", "24h"):
        with django_assert_max_num_queries(QUERIES):
            assert client.get(f"/provider/machines/{machine.pk}/", {"span": span}).status_code == 200


QUERIES = 21
"""Session, viewer, party, provider, machine, cards; verdicts, runs, listings, health, claims, outages, jobs, schedule,
countries, occupancy twice, rollups, navigation."""


def test_a_reading_of_the_present_is_in_the_table(machine: Machine, ada: User, signed_in: SignedIn) -> None:
    day_of_telemetry(machine, now=clock.now() - PACE)
    page = signed_in(ada).get(f"/provider/machines/{machine.pk}/")
    assert all(reading is not None for _gpu, _verdict, reading in page.context["gpus"])

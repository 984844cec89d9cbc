"""The performance tab: the score, its parts, what cost points, when that fades."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client

from accounts.models import User
from core import clock
from core.charts import line_chart
from reliability import services
from reliability.models import MachineHealth, OnlineInterval, PlatformOutage, ScoreDay
from tests.factories.benchmarks import baseline_made, machine_made, provider_made

pytestmark = pytest.mark.django_db
SignedIn = Callable[[User], Client]
PATH = "/provider/performance/"
DAY = timedelta(days=1)


def test_it_shows_score_parts_machines_and_events(ada: User, signed_in: SignedIn) -> None:
    now = clock.now()
    start = now - 5 * DAY
    provider = provider_made(ada, now=start)
    machine = machine_made(provider, now=start)
    baseline_made(machine, now=start)
    never_heard_of = machine_made(provider, now=now)
    OnlineInterval.objects.create(machine=machine, started_at=start, ended_at=now - DAY)
    OnlineInterval.objects.create(machine=machine, started_at=now - DAY / 2)
    MachineHealth.objects.create(
        machine=machine,
        state="online",
        state_since=now - DAY / 2,
        last_seen_at=now,
        offline_due_at=now + DAY,
        boot_id="b",
    )
    PlatformOutage.objects.create(
        started_at=now - 3 * DAY, ended_at=now - 3 * DAY + timedelta(minutes=3), cause="silence"
    )
    services.incident_record(
        source="attempt:1", provider_id=provider.pk, machine_id=machine.pk, gpu_id=None, reason="gpu_lost", owner="provider",
        weight_seconds=3600, at=now - 2 * DAY,
    )  # fmt: skip
    for days in (2, 1, 0):
        services.scores_recompute(now=now - days * DAY)
    text = signed_in(ada).get(PATH).content.decode()
    for expected in (
        "Reliability score",
        "New: 4 days of evidence",
        machine.name,
        never_heard_of.name,
        "Never seen",
        "The machine was offline.",
        "The GPU fell off the bus while the job ran.",
        "12 h 00 min",
        "Our own outages",
        "<polyline",
    ):
        assert expected in text, expected
    assert ScoreDay.objects.filter(subject_id=provider.pk).count() == 3


def test_before_there_is_a_score_it_says_what_begins_it(ada: User, signed_in: SignedIn) -> None:
    provider_made(ada, now=clock.now())
    services.scores_recompute(now=clock.now())
    assert b"No score yet" in signed_in(ada).get(PATH).content


def test_nobody_else_has_one(ravi: User, signed_in: SignedIn) -> None:
    assert signed_in(ravi).get(PATH).status_code == 404
    assert Client().get(PATH).status_code == 302


def test_a_chart_breaks_where_a_reading_is_unknown() -> None:
    now = clock.now()
    readings = [(now + n * DAY, value) for n, value in enumerate([100.0, 50.0, None, 0.0, None, 0.0, 100.0])]
    chart = line_chart(readings, lowest=0, highest=100, guide=75)
    assert chart is not None
    assert chart.lines == ("0.0,0.0 100.0,60.0", "500.0,120.0 600.0,0.0")
    assert chart.dots == (("300.0", "120.0"),)
    assert chart.guide_y == "30.0"
    assert line_chart([(now, None)], lowest=0, highest=1) is None

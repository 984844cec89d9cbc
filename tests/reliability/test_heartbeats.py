"""Silence, noticed at the right instant and dated to the last heartbeat; our own absence, held against nobody."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
import redis
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext
from redis.backoff import NoBackoff
from redis.retry import Retry

from accounts.models import User
from core import valkey as core_valkey
from core.models import Delivery
from gpunex.wiring import NEWS
from providers.models import Machine
from reliability import selectors, services
from reliability.models import Flip, MachineHealth, OnlineInterval, PlatformOutage, PlatformPulse
from reliability.selectors import live
from reliability.services import heartbeats, platform
from reliability.services.sweep import Swept
from tests.factories.benchmarks import machine_made, provider_made
from tests.factories.reliability import PACE, beat, fleet_runs

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clean_valkey")]
T0 = datetime(2026, 6, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
LATER = T0 + timedelta(minutes=10)
"""A fleet that has been running for ten minutes is past the start's grace."""


@pytest.fixture
def machines(db: None, ada: User) -> list[Machine]:
    provider = provider_made(ada, now=T0)
    return [machine_made(provider, now=T0) for _machine in range(3)]


@pytest.fixture
def machine(machines: list[Machine]) -> Machine:
    return machines[0]


def state(machine: Machine) -> str:
    return MachineHealth.objects.get(pk=machine.pk).state


def swept(last: datetime, until: datetime) -> None:
    """Sweeps every 5 s from just after ``last`` to ``until``."""
    at = last + 5 * SECOND
    while at <= until:
        services.offline_sweep(now=at)
        at += 5 * SECOND


def test_the_first_heartbeat_opens_an_interval_and_flips_once(machine: Machine) -> None:
    beat(machine, at=T0)
    for _time in range(2):
        services.heartbeats_flush(now=T0 + SECOND)
    health = selectors.health_of([machine.pk])[machine.pk]
    assert (health.state, health.last_seen_at, health.state_since) == ("online", T0, T0)
    assert health.offline_due_at == T0 + 90 * SECOND
    assert OnlineInterval.objects.get().started_at == T0
    flip = Flip.objects.get()
    assert (flip.to, flip.at, flip.noticed_at) == ("online", T0, T0 + SECOND)


def test_a_machine_nobody_heard_of_has_no_health(machine: Machine) -> None:
    assert selectors.health_of([machine.pk]) == {}


def test_a_heartbeat_of_an_unknown_machine_is_skipped(machine: Machine) -> None:
    services.heartbeats_note([(uuid4(), T0, "boot", [])])
    beat(machine, at=T0)
    assert services.heartbeats_flush(now=T0) == 1


def test_an_older_heartbeat_never_overwrites_a_newer_one(machine: Machine) -> None:
    beat(machine, at=T0 + 60 * SECOND)
    services.heartbeats_flush(now=T0 + 60 * SECOND)
    beat(machine, at=T0)
    assert services.heartbeats_flush(now=T0 + 61 * SECOND) == 0
    assert MachineHealth.objects.get(pk=machine.pk).last_seen_at == T0 + 60 * SECOND


def test_a_quiet_machine_is_suspect_at_45_and_offline_at_90_seconds_as_of_its_last_heartbeat(machine: Machine) -> None:
    last = fleet_runs(machine, since=T0, until=LATER)
    seen = {}
    for seconds in range(1, 92):
        services.offline_sweep(now=last + seconds * SECOND)
        seen.setdefault(state(machine), seconds)
    assert seen == {"online": 1, "suspect": 45, "offline": 90}
    assert OnlineInterval.objects.get().ended_at == last
    assert list(Flip.objects.order_by("id").values_list("to", "at")) == [
        ("online", T0),
        ("suspect", last + 45 * SECOND),
        ("offline", last + 90 * SECOND),
    ]


def test_the_verdict_carries_its_own_instant_even_when_it_is_noticed_late(machine: Machine) -> None:
    last = fleet_runs(machine, since=T0, until=LATER)
    swept(last, last + 80 * SECOND)
    services.offline_sweep(now=last + 97 * SECOND)
    flip = Flip.objects.get(to="offline")
    assert (flip.at, flip.noticed_at) == (last + 90 * SECOND, last + 97 * SECOND)


def test_a_return_opens_a_new_interval_at_its_first_heartbeat_not_at_the_flush(machine: Machine) -> None:
    last = fleet_runs(machine, since=T0, until=LATER)
    swept(last, last + 300 * SECOND)
    back = last + 300 * SECOND
    for number in range(4):
        beat(machine, at=back + number * PACE)
    services.heartbeats_flush(now=back + 4 * PACE)
    assert list(OnlineInterval.objects.order_by("id").values_list("started_at", "ended_at")) == [
        (T0, last),
        (back, None),
    ]
    assert Flip.objects.latest("id").at == back


def test_a_suspect_that_is_heard_again_was_never_away(machine: Machine) -> None:
    last = fleet_runs(machine, since=T0, until=LATER)
    swept(last, last + 60 * SECOND)
    assert state(machine) == "suspect"
    beat(machine, at=last + 61 * SECOND)
    services.heartbeats_flush(now=last + 62 * SECOND)
    assert state(machine) == "online"
    assert OnlineInterval.objects.get().ended_at is None


def test_a_sweep_looks_where_heartbeats_arrive_before_it_judges(machine: Machine) -> None:
    last = fleet_runs(machine, since=T0, until=LATER)
    at = last
    while at < last + 300 * SECOND:  # nobody flushes for five minutes
        at += PACE
        beat(machine, at=at)
        services.offline_sweep(now=at)
    assert state(machine) == "online"
    assert not Flip.objects.exclude(to="online").exists()


def test_one_quiet_machine_leaves_the_others_alone(machines: list[Machine]) -> None:
    last = fleet_runs(*machines, since=T0, until=LATER)
    fleet_runs(*machines[1:], since=last + PACE, until=last + 10 * PACE)
    assert [state(machine) for machine in machines] == ["offline", "online", "online"]
    assert OnlineInterval.objects.filter(ended_at=None).count() == 2


def test_flips_are_news(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NEWS.topics, "machine.flip", ("tests.listener",))  # type: ignore[arg-type]
    last = fleet_runs(machine, since=T0, until=LATER)
    swept(last, last + 90 * SECOND)
    told = Delivery.objects.filter(consumer="tests.listener")
    assert list(told.values_list("subject", flat=True)) == [machine.pk] * 3


def test_sweeping_twice_changes_nothing(machine: Machine) -> None:
    last = fleet_runs(machine, since=T0, until=LATER)
    swept(last, last + 85 * SECOND)
    assert services.offline_sweep(now=last + 90 * SECOND).offline == 1
    assert services.offline_sweep(now=last + 90 * SECOND).offline == 0
    assert Flip.objects.filter(to="offline").count() == 1


# -- Our own absence --------------------------------------------------------------------------------------------------


def test_no_verdict_within_120_seconds_of_the_first_look(machine: Machine) -> None:
    beat(machine, at=T0)
    services.heartbeats_flush(now=T0)
    for seconds in range(0, 120, 5):
        assert services.offline_sweep(now=T0 + seconds * SECOND) == Swept(looked=False)
    assert services.offline_sweep(now=T0 + 120 * SECOND).offline == 1
    assert not PlatformOutage.objects.exists()  # there was nothing before us to be away from


def test_an_emptied_valkey_costs_nobody_anything(machines: list[Machine]) -> None:
    last = fleet_runs(*machines, since=T0, until=LATER)
    core_valkey.valkey().flushdb()
    # Agents are told nothing and heard nowhere for 100 s, sweeps go on; then they are back.
    swept(last, last + 100 * SECOND)
    fleet_runs(*machines, since=last + 105 * SECOND, until=last + 400 * SECOND)
    assert {state(machine) for machine in machines} == {"online"}
    assert not Flip.objects.filter(to="offline").exists()
    assert OnlineInterval.objects.filter(ended_at=None).count() == OnlineInterval.objects.count() == 3
    assert PlatformOutage.objects.get().ended_at == last + 5 * SECOND


def test_control_without_the_epoch_the_same_100_seconds_would_have_been_everybodys_outage(
    machines: list[Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    last = fleet_runs(*machines, since=T0, until=LATER)
    core_valkey.valkey().flushdb()
    epoch = str(PlatformPulse.objects.get().epoch)
    monkeypatch.setattr(platform.live, "epoch_seen", lambda: epoch)
    swept(last, last + 100 * SECOND)
    assert {state(machine) for machine in machines} == {"offline"}


def test_a_refill_knows_what_postgresql_knew_and_yields_to_fresh_heartbeats(machines: list[Machine]) -> None:
    last = fleet_runs(*machines, since=T0, until=LATER)
    core_valkey.valkey().flushdb()
    beat(machines[0], at=last + SECOND)
    services.platform_started(now=last + 2 * SECOND)
    found = {entry.machine_id: entry.at for entry in live.beats_of([machine.pk for machine in machines], {})}
    assert found[str(machines[0].pk)] == last + SECOND
    assert found[str(machines[1].pk)] == last


def test_a_platform_that_slept_records_its_own_outage_and_waits(machine: Machine) -> None:
    last = fleet_runs(machine, since=T0, until=LATER)
    hour = last + timedelta(hours=1)
    assert services.offline_sweep(now=hour) == Swept(looked=False)
    outage = PlatformOutage.objects.get()
    assert (outage.started_at, outage.ended_at) == (last, hour)
    assert services.offline_sweep(now=hour + 5 * SECOND) == Swept(looked=False)
    fleet_runs(machine, since=hour + 10 * SECOND, until=hour + 200 * SECOND)
    assert state(machine) == "online"


def test_who_really_left_during_our_outage_is_offline_after_the_wait_as_of_the_last_heartbeat(machine: Machine) -> None:
    last = fleet_runs(machine, since=T0, until=LATER)
    hour = last + timedelta(hours=1)
    for seconds in range(0, 125, 5):
        services.offline_sweep(now=hour + seconds * SECOND)
    assert state(machine) == "offline"
    assert OnlineInterval.objects.get().ended_at == last


def test_without_valkey_nobody_is_judged(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    last = fleet_runs(machine, since=T0, until=LATER)
    away = redis.Redis(host="127.0.0.1", port=1, retry=Retry(NoBackoff(), 0))
    for module in (live, platform, heartbeats):
        monkeypatch.setattr(module, "valkey", lambda: away)
    assert services.offline_sweep(now=last + 200 * SECOND) == Swept(looked=False)
    assert state(machine) == "online"


# -- Scale and laws ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["return", "silence", "routine"])
def test_flush_and_sweep_take_as_many_statements_for_a_fleet_as_for_one(
    machines: list[Machine], monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.setitem(NEWS.topics, "machine.flip", ("tests.listener",))  # type: ignore[arg-type]
    counts = []
    at = T0
    for several in (machines[:1], machines):
        last = fleet_runs(*several, since=at, until=at + timedelta(minutes=10))
        if verb == "silence":
            swept(last, last + 85 * SECOND)
            with CaptureQueriesContext(connection) as queries:
                assert services.offline_sweep(now=last + 90 * SECOND).offline == len(several)
        else:
            if verb == "return":
                swept(last, last + 200 * SECOND)
            beat(*several, at=last + 201 * SECOND)
            with CaptureQueriesContext(connection) as queries:
                assert services.heartbeats_flush(now=last + 202 * SECOND) == len(several)
        counts.append(len(queries))
        at = last + timedelta(minutes=20)
    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    ("statement", "law"),
    [
        ("UPDATE reliability_flip SET at = at - interval '1 hour'", "written once"),
        ("DELETE FROM reliability_flip", "written once"),
        ("UPDATE reliability_onlineinterval SET started_at = started_at - interval '1 day'", "written once"),
        ("INSERT INTO reliability_onlineinterval (machine_id, started_at) "
         "SELECT machine_id, started_at FROM reliability_onlineinterval", "one_open"),
        ("UPDATE reliability_onlineinterval SET ended_at = started_at - interval '1 second'", "forward"),
    ],
)  # fmt: skip
def test_the_database_refuses_to_bend_the_past(machine: Machine, statement: str, law: str) -> None:
    beat(machine, at=T0)
    services.heartbeats_flush(now=T0)
    with pytest.raises(IntegrityError, match=law), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)

"""Scores from stored events: the same number again, newest wins, told when it matters, explained point by point."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from accounts.models import User
from benchmarks.services.requests import runs_request
from core.errors import Conflict, Invalid
from core.models import Delivery
from gpunex.wiring import NEWS
from providers.models import Machine, Provider
from providers.services import machine_drain, machine_resume, machine_retire, schedule_set
from reliability import selectors, services
from reliability.models import Incident, OnlineInterval, Outcome, PlatformOutage, Score, ScoreDay
from reliability.scoring import score
from reliability.services.scores import Figures, scores_store
from tests.factories.benchmarks import baseline_made, machine_made, provider_made, run_done
from tests.factories.reliability import beat, fleet_runs

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("clean_valkey")]
T0 = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


@pytest.fixture
def provider(db: None, ada: User) -> Provider:
    return provider_made(ada, now=T0)


@pytest.fixture
def machine(provider: Provider) -> Machine:
    """In service since T0, with a clean baseline."""
    made = machine_made(provider, now=T0)
    baseline_made(made, now=T0)
    return made


def online(machine: Machine, *spans: tuple[datetime, datetime]) -> None:
    """A past that heartbeats would have left behind."""
    OnlineInterval.objects.bulk_create(
        OnlineInterval(machine=machine, started_at=start, ended_at=end) for start, end in spans
    )


def scored(provider: Provider, at: datetime) -> Score:
    services.scores_recompute(now=at, provider_ids=[provider.pk])
    return selectors.score_of([provider.pk])[provider.pk]


def test_from_heartbeats_to_a_perfect_score(provider: Provider, machine: Machine) -> None:
    last = fleet_runs(machine, since=T0, until=T0 + timedelta(minutes=20))
    found = scored(provider, last)
    assert (found.u, found.c, found.b, found.s) == (100, 100, 100, 100)
    # Counted from the first passing verdict, 30 seconds after T0.
    assert found.evidence_seconds == 20 * 60 - 30
    assert selectors.score_of([machine.pk])[machine.pk].s == 100


def test_a_provider_without_a_passing_card_has_no_score_yet(provider: Provider) -> None:
    machine_made(provider, now=T0)
    found = scored(provider, T0 + DAY)
    assert (found.u, found.s, found.evidence_seconds) == (None, None, 0)


def test_an_outage_of_five_hours_in_ten_days(provider: Provider, machine: Machine) -> None:
    online(machine, (T0, T0 + 5 * DAY), (T0 + 5 * DAY + 5 * HOUR, T0 + 10 * DAY))
    found = scored(provider, T0 + 10 * DAY)
    assert found.u is not None
    # 300 minutes less the ten forgiven, at their weight, out of ten days at theirs.
    gap = 2 ** (-(5 - 5 / 24) / 14) - 2 ** (-5 / 14)
    assert float(found.u) == pytest.approx(100 * (1 - gap * 290 / 300 / (1 - 2 ** (-10 / 14))), abs=0.001)
    assert found.s == found.u


def test_platform_outages_cost_nothing(provider: Provider, machine: Machine) -> None:
    online(machine, (T0, T0 + 5 * DAY), (T0 + 5 * DAY + 5 * HOUR, T0 + 10 * DAY))
    PlatformOutage.objects.create(started_at=T0 + 5 * DAY, ended_at=T0 + 5 * DAY + 5 * HOUR, cause="silence")
    assert scored(provider, T0 + 10 * DAY).s == 100


def test_only_declared_hours_count(provider: Provider, machine: Machine, ada: User) -> None:
    windows = [{"days": list(range(7)), "start": "12:00", "end": "18:00"}]
    schedule_set(provider=provider, zone="UTC", always_on=False, windows=windows, actor=ada, now=T0 - DAY)
    online(machine, *((T0 + n * DAY, T0 + n * DAY + 6 * HOUR) for n in range(4)))
    found = scored(provider, T0 + 4 * DAY)
    assert found.s == 100
    assert found.evidence_seconds == 4 * 6 * 3600 - 30


def test_a_drain_counts_as_missing_and_a_planned_leave_ends_the_promise(provider: Provider, machine: Machine) -> None:
    online(machine, (T0, T0 + 4 * DAY))
    machine_drain(machine=machine, actor="tests", now=T0 + 1 * DAY)
    machine_resume(machine=machine, actor="tests", now=T0 + 2 * DAY)
    drained = scored(provider, T0 + 4 * DAY)
    assert drained.s is not None
    assert Decimal(74) < drained.s < Decimal(77)
    machine_retire(machine=machine, actor="tests", now=T0 + 4 * DAY)
    left = scored(provider, T0 + 8 * DAY)
    assert left.evidence_seconds == 4 * 86400 - 30
    assert left.s is not None
    assert drained.s - 1 < left.s < drained.s + 2


def test_a_failed_job_of_the_provider_costs_a_customers_own_fault_does_not(
    provider: Provider, machine: Machine
) -> None:
    online(machine, (T0, T0 + DAY))
    facts = {"provider_id": provider.pk, "machine_id": machine.pk, "at": T0 + DAY}
    services.outcome_record(source="attempt:1", completed=None, gpu_seconds=3600, **facts)
    services.incident_record(
        source="attempt:1", gpu_id=None, reason="nonzero_exit", owner="customer", weight_seconds=3600, **facts
    )
    assert scored(provider, T0 + DAY).c == 100
    # One fault told twice over, as an incident and as an outcome, counts once.
    services.incident_record(
        source="attempt:2", gpu_id=None, reason="gpu_lost", owner="provider", weight_seconds=3600, **facts
    )
    services.outcome_record(source="attempt:2", completed=False, gpu_seconds=3600, **facts)
    services.incident_record(
        source="xid:1", gpu_id=None, reason="gpu_fault", owner="provider", weight_seconds=None, **facts
    )
    found = scored(provider, T0 + DAY + timedelta(seconds=1))
    assert found.c == Decimal("90.909")  # 10 ÷ 11
    assert found.s == Decimal("90.909")


def test_a_slower_card_lowers_b(provider: Provider, ada: User) -> None:
    machine = machine_made(provider, now=T0)
    (gpu,) = baseline_made(machine, now=T0)
    for number in range(3):
        at = T0 + HOUR * (number + 1)
        runs_request(gpus=[gpu], trigger="weekly", now=at)
        run_done(gpu, now=at, fp32_tflops=31.5)
    online(machine, (T0, T0 + DAY))
    assert scored(provider, T0 + DAY).b == 90


# -- Recomputing ------------------------------------------------------------------------------------------------------


def test_an_older_result_never_overwrites_a_newer_one(provider: Provider, machine: Machine) -> None:
    online(machine, (T0, T0 + DAY))
    newest = scored(provider, T0 + 2 * DAY)
    before = newest.s
    assert services.scores_recompute(now=T0 + DAY, provider_ids=[provider.pk]) == 0
    newest.refresh_from_db()
    assert (newest.s, newest.computed_at) == (before, T0 + 2 * DAY)
    assert before is not None
    assert before < 60
    assert ScoreDay.objects.get(subject_id=provider.pk, day=(T0 + DAY).date()).s == 100  # the history is filled in


def test_it_tells_others_when_the_score_moved_by_a_twentieth_of_a_point(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(NEWS.topics, "provider.score", ("tests.listener",))  # type: ignore[arg-type]
    told = []
    for number, points in enumerate(["99.000", "99.040", "99.049", "99.050", "99.010", "99.000"]):
        figures = Figures("provider", provider.pk, provider.pk, None, Decimal(100), None, Decimal(points), 1)
        scores_store([figures], computed_at=T0 + number * HOUR)
        told.append(Delivery.objects.filter(consumer="tests.listener").count())
    # Small steps add up: what counts is the distance to what was last told.
    assert told == [1, 1, 1, 2, 2, 3]


def test_the_same_events_give_the_same_number_by_command(provider: Provider, machine: Machine) -> None:
    online(machine, (T0, T0 + 3 * DAY), (T0 + 3 * DAY + HOUR, T0 + 5 * DAY))
    stored = scored(provider, T0 + 5 * DAY)
    # Life goes on; what was known then still gives what was said then.
    online(machine, (T0 + 6 * DAY, T0 + 7 * DAY))
    out = StringIO()
    call_command("replay_score", provider="ada", as_of=(T0 + 5 * DAY).isoformat(), stdout=out)
    assert str(stored.s) in out.getvalue()
    again = StringIO()
    call_command("replay_score", provider="ada", stdout=again)
    assert "The stored score is the same." in again.getvalue()
    Score.objects.filter(pk=stored.pk).update(s=Decimal("12.345"))
    with pytest.raises(CommandError, match=r"12\.345"):
        call_command("replay_score", provider="ada", stdout=StringIO())
    with pytest.raises(CommandError, match="nobody"):
        call_command("replay_score", provider="nobody", stdout=StringIO())


def test_a_score_taken_while_online_is_the_same_after_the_interval_was_closed(
    provider: Provider, machine: Machine
) -> None:
    last = fleet_runs(machine, since=T0, until=T0 + timedelta(minutes=20))
    at = last + timedelta(seconds=80)
    live = score(selectors.evidence_of([provider.pk], as_of=at)[provider.pk])
    for seconds in range(5, 200, 5):
        services.offline_sweep(now=last + timedelta(seconds=seconds))
    assert OnlineInterval.objects.get(machine=machine).ended_at == last
    assert score(selectors.evidence_of([provider.pk], as_of=at)[provider.pk]) == live


def test_recomputing_takes_as_many_statements_for_a_fleet_as_for_one(provider: Provider, machine: Machine) -> None:
    counts = []
    for number in range(2):
        with CaptureQueriesContext(connection) as queries:
            services.scores_recompute(now=T0 + DAY + number * HOUR)
        counts.append(len(queries))
        for _machine in range(2):
            online(baseline_and(machine_made(provider, now=T0)), (T0, T0 + DAY))
    assert counts[0] == counts[1]


def baseline_and(machine: Machine) -> Machine:
    baseline_made(machine, now=T0)
    return machine


# -- Explaining -------------------------------------------------------------------------------------------------------


def test_each_event_says_what_it_cost_and_when_it_fades(provider: Provider, machine: Machine) -> None:
    gap = (T0 + 2 * DAY, T0 + 2 * DAY + 5 * HOUR)
    online(machine, (T0, gap[0]), (gap[1], T0 + 5 * DAY))
    services.incident_record(
        source="attempt:9", provider_id=provider.pk, machine_id=machine.pk, gpu_id=None, reason="gpu_lost",
        owner="provider", weight_seconds=7200, at=T0 + 4 * DAY,
    )  # fmt: skip
    as_of = T0 + 5 * DAY
    stored = scored(provider, as_of)
    failure, outage = selectors.score_events(provider, as_of=as_of)
    assert (failure.kind, failure.reason, failure.at) == ("job", "gpu_lost", T0 + 4 * DAY)
    assert (outage.kind, outage.started_at, outage.at) == ("offline", *gap)
    assert outage.fades_at == gap[1] + 90 * DAY
    # The score without the event minus the score: u = 1 and c = 1 respectively.
    assert stored.u is not None
    assert stored.s is not None
    assert float(outage.points) == pytest.approx(float(stored.c - stored.s), abs=0.002)
    assert float(failure.points) == pytest.approx(float(stored.u - stored.s), abs=0.002)


# -- Recording --------------------------------------------------------------------------------------------------------


def test_an_event_is_recorded_once_per_source_and_never_bent(provider: Provider, machine: Machine) -> None:
    facts = {"source": "attempt:1", "provider_id": provider.pk, "machine_id": machine.pk, "gpu_seconds": 60, "at": T0}
    first = services.outcome_record(completed=True, **facts)
    assert services.outcome_record(completed=True, **facts) == first
    with pytest.raises(Conflict, match="other facts") as refusal:
        services.outcome_record(completed=False, **facts)
    assert list(refusal.value.fields) == ["completed"]
    assert Outcome.objects.get().completed is True
    with pytest.raises(IntegrityError, match="written once"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("UPDATE reliability_outcome SET completed = false")


@pytest.mark.parametrize(
    ("change", "field"), [({"owner": "nobody"}, "owner"), ({"weight_seconds": -1}, "weight_seconds")]
)
def test_bad_input_is_named(provider: Provider, machine: Machine, change: dict[str, object], field: str) -> None:
    facts = {"owner": "provider", "weight_seconds": 1, "reason": "gpu_lost", "gpu_id": None} | change
    with pytest.raises(Invalid) as refusal:
        services.incident_record(source="x", provider_id=provider.pk, machine_id=machine.pk, at=T0, **facts)  # type: ignore[arg-type]
    assert list(refusal.value.fields) == [field]
    assert not Incident.objects.exists()


def test_who_was_never_heard_of_after_passing_was_missing_all_along(provider: Provider, machine: Machine) -> None:
    beat(machine, at=T0)
    services.heartbeats_flush(now=T0)
    found = scored(provider, T0 + DAY)
    assert found.u is not None
    assert found.u < 1

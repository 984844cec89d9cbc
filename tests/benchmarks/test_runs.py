"""The life of a run: asked for once, never under a job, one per machine, fenced, twice-harmless, never lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any
from uuid import uuid4

import pytest
import time_machine
from django.db import IntegrityError, connection, transaction

from accounts.models import User
from agent_protocol.messages import PlanItem
from benchmarks import services
from benchmarks.models import Result, Run, Suite, Threshold, Verdict
from benchmarks.services.dispatch import GRACE_SECONDS, OFFER_SECONDS
from benchmarks.services.requests import SURPRISES_PER_DAY, WEEKLY, weekly_wait
from core import clock
from core.errors import Conflict, Denied, Invalid, NotFound
from core.models import Delivery
from providers.models import Gpu, GpuClaim, Machine
from providers.selectors import plan_of
from providers.services import gpus_claim, gpus_release, machine_inventory_record, machine_retire
from tests.factories.benchmarks import (
    baseline_made,
    failure_for,
    inventory_of,
    machine_made,
    provider_made,
    report_for,
    run_done,
    run_offered,
)

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)


@pytest.fixture
def now() -> Iterator[datetime]:
    """Time stands still here; verbs get the instants they are to believe."""
    with time_machine.travel(datetime(2026, 6, 1, 12, tzinfo=UTC), tick=False):
        yield clock.now()


@pytest.fixture
def machine(db: None, ada: User, now: datetime) -> Machine:
    return machine_made(provider_made(ada, now=now), now=now)


@pytest.fixture
def gpu(machine: Machine) -> Gpu:
    services.runs_request_for_machine(machine.pk)
    return machine.gpus.get()


def later(now: datetime, minutes: float) -> datetime:
    return now + minutes * MINUTE


# -- Asking -----------------------------------------------------------------------------------------------------------


def test_a_new_card_gets_one_run_however_often_its_inventory_arrives(machine: Machine) -> None:
    for _time in range(3):
        services.runs_request_for_machine(machine.pk)
    run = Run.objects.get()
    assert (run.trigger, run.status, run.requested_by) == ("enrolment", "requested", "system")


def test_it_is_wired_to_the_news_of_an_inventory(machine: Machine) -> None:
    assert Delivery.objects.filter(topic="machine.inventory", consumer="benchmarks.runs_request_for_machine").exists()


def test_a_machine_is_measured_before_its_owner_confirmed_it(ada: User, now: datetime) -> None:
    waiting = machine_made(provider_made(ada, now=now), now=now, confirmed=False)
    services.runs_request_for_machine(waiting.pk)
    assert services.runs_dispatch(now=clock.now()) == 1


def test_a_card_that_is_not_active_gets_none(machine: Machine) -> None:
    Gpu.objects.update(status="needs_review", reason="over_approved")
    services.runs_request_for_machine(machine.pk)
    assert not Run.objects.exists()


def test_three_runs_make_the_baseline_and_no_fourth_is_asked_for(machine: Machine, now: datetime) -> None:
    baseline_made(machine, now=later(now, 1))
    assert list(Run.objects.values_list("status", "trigger")) == [("verified", "enrolment")] * 3


def test_a_new_driver_begins_a_new_baseline(machine: Machine, now: datetime) -> None:
    (gpu,) = baseline_made(machine, now=later(now, -10))
    inventory = inventory_of([gpu.uuid], driver="580.10.02")
    machine_inventory_record(machine=machine, inventory=inventory, now=now)
    services.runs_request_for_machine(machine.pk)
    for number in range(3):
        run_done(gpu, now=later(now, number))
    assert Run.objects.filter(trigger="change", driver_version="580.10.02", status="verified").count() == 3


def test_it_is_measured_again_after_a_week_and_its_own_jitter(machine: Machine, now: datetime) -> None:
    (gpu,) = baseline_made(machine, now=now)
    reported = Run.objects.latest("reported_at").reported_at
    assert reported is not None
    assert services.runs_request_weekly(now=reported + weekly_wait(gpu.pk) - MINUTE) == 0
    assert services.runs_request_weekly(now=reported + weekly_wait(gpu.pk)) == 1
    assert services.runs_request_weekly(now=reported + 2 * WEEKLY) == 0  # it waits already


def test_cards_are_drawn_by_lot_and_nobody_waits_twice(machine: Machine, now: datetime) -> None:
    (gpu,) = baseline_made(machine, now=now)

    class Lot(Random):
        def __init__(self, value: float) -> None:
            self.value = value

        def random(self) -> float:
            return self.value

    at = later(now, 60)
    assert services.runs_request_surprise(now=at, random=Lot(SURPRISES_PER_DAY / 24)) == 0
    assert services.runs_request_surprise(now=at, random=Lot(0.0)) == 1
    assert services.runs_request_surprise(now=at, random=Lot(0.0)) == 0
    assert Run.objects.get(status="requested").trigger == "surprise"
    run_done(gpu, now=at)
    Gpu.objects.update(status="needs_review", reason="over_approved")
    assert services.runs_request_surprise(now=later(now, 120), random=Lot(0.0)) == 0


def test_a_new_suite_measures_every_card_anew_within_a_day(machine: Machine, now: datetime) -> None:
    (gpu,) = baseline_made(machine, now=later(now, -60))
    assert services.runs_request_for_suite(now=now) == 0
    first = Suite.objects.get()
    second = Suite.objects.create(version=2, rounds=first.rounds, time_limit_s=900, valid_from=now)
    for row in Threshold.objects.filter(suite=first):
        Threshold.objects.create(
            suite=second, name=row.name, value=row.value, valid_from=row.valid_from, reason=row.reason
        )
    wait = timedelta(hours=gpu.pk.int % 24)
    assert services.runs_request_for_suite(now=now + wait - MINUTE) == 0
    assert services.runs_request_for_suite(now=now + wait) == 1
    for number in range(3):
        run_done(gpu, now=now + wait + number * MINUTE)
    assert services.runs_request_for_suite(now=now + wait + 9 * MINUTE) == 0
    assert Run.objects.filter(suite=second, status="verified").count() == 3


# -- Offering ---------------------------------------------------------------------------------------------------------


def test_an_offer_claims_the_gpu_and_the_agent_can_read_its_plan(gpu: Gpu, now: datetime) -> None:
    at = later(now, 1)
    run = run_offered(gpu, now=at)
    claim = GpuClaim.objects.get(live=True)
    version, items = plan_of(gpu.machine_id)
    body = PlanItem.parse(items[0]).typed_body()
    assert (claim.kind, claim.holder, claim.gpu_id) == ("benchmark", run.pk, gpu.pk)
    assert version == 1
    assert (body.run_id, body.gpu_uuid, body.challenge.nonce) == (str(run.pk), gpu.uuid, run.challenge["nonce"])
    assert run.lease_until == at + timedelta(seconds=OFFER_SECONDS)


def test_never_under_a_job(gpu: Gpu, now: datetime) -> None:
    job = uuid4()
    gpus_claim(gpu_ids=[gpu.pk], kind="job", holder=job, now=now)
    assert services.runs_dispatch(now=later(now, 1)) == 0
    assert Run.objects.get().status == "requested"
    assert plan_of(gpu.machine_id) == (0, [])
    gpus_release(holder=job, now=now)
    assert services.runs_dispatch(now=later(now, 1)) == 0  # it took a number
    assert services.runs_dispatch(now=later(now, 3)) == 1


def test_one_run_at_a_time_on_a_machine(ada: User, now: datetime) -> None:
    machine = machine_made(provider_made(ada, now=now), now=now, cards=3)
    services.runs_request_for_machine(machine.pk)
    for done in range(3):
        assert services.runs_dispatch(now=later(now, 1)) == 1
        assert services.runs_dispatch(now=later(now, 1)) == 0
        run = Run.objects.get(status="offered")
        services.run_report(machine=machine, report=report_for(run), now=later(now, 1))
        assert Verdict.objects.count() == done + 1


def test_the_database_refuses_a_second_run_on_a_host_and_a_second_open_run(ada: User, now: datetime) -> None:
    machine = machine_made(provider_made(ada, now=now), now=now, cards=2)
    services.runs_request_for_machine(machine.pk)
    first, second = Run.objects.order_by("pk")
    lease = {"lease_until": now}
    Run.objects.filter(pk=first.pk).update(status="offered", **lease)
    with pytest.raises(IntegrityError, match="one_on_host"), transaction.atomic():
        Run.objects.filter(pk=second.pk).update(status="running", **lease)
    with pytest.raises(IntegrityError, match="one_open"), transaction.atomic():
        Run.objects.create(
            gpu=first.gpu, machine=machine, suite=first.suite, trigger="retest", requested_by="x",
            requested_at=now, not_before=now,
        )  # fmt: skip
    with pytest.raises(IntegrityError, match="leased"), transaction.atomic():
        Run.objects.filter(pk=first.pk).update(lease_until=None)


# -- Observing and expiring -------------------------------------------------------------------------------------------


def test_a_sync_begins_a_run_and_shows_its_progress(gpu: Gpu, now: datetime) -> None:
    run = run_offered(gpu, now=later(now, 1))
    at = later(now, 2)
    for state, progress in (("waiting", None), ("running", 10), ("running", 60)):
        services.run_observe(machine=gpu.machine, run_id=run.pk, state=state, progress=progress, now=at)
    run.refresh_from_db()
    assert (run.status, run.progress_percent, run.started_at) == ("running", 60, at)
    assert run.lease_until == at + timedelta(seconds=run.suite.time_limit_s + GRACE_SECONDS)


def test_another_machine_cannot_observe_report_or_fail_it(gpu: Gpu, now: datetime) -> None:
    run = run_offered(gpu, now=later(now, 1))
    other = machine_made(gpu.machine.provider, now=now)
    services.run_observe(machine=other, run_id=run.pk, state="running", progress=1, now=now)
    for call in (
        lambda: services.run_report(machine=other, report=report_for(run), now=now),
        lambda: services.run_fail(machine=other, failure=failure_for(run), now=now),
    ):
        with pytest.raises(NotFound):
            call()
    run.refresh_from_db()
    assert run.status == "offered"
    assert not Result.objects.exists()


@pytest.mark.parametrize("begun", [False, True])
def test_a_silent_run_expires_gives_everything_back_and_is_asked_for_again(
    gpu: Gpu, now: datetime, begun: bool
) -> None:
    run = run_offered(gpu, now=later(now, 1))
    if begun:
        services.run_observe(machine=gpu.machine, run_id=run.pk, state="running", progress=1, now=later(now, 1))
    run.refresh_from_db()
    assert run.lease_until is not None
    assert services.runs_expire(now=run.lease_until - timedelta(seconds=1)) == 0
    at = run.lease_until
    assert services.runs_expire(now=at) == 1
    assert services.runs_expire(now=at) == 0
    run.refresh_from_db()
    again = Run.objects.get(status="requested")
    assert (run.status, run.reason) == ("expired", "no_answer")
    assert (again.attempt, again.not_before) == (2, at + timedelta(minutes=2))
    assert not GpuClaim.objects.filter(live=True).exists()
    assert plan_of(gpu.machine_id)[1] == []


def test_a_late_report_of_an_expired_run_is_refused(gpu: Gpu, now: datetime) -> None:
    run = run_offered(gpu, now=now + MINUTE)
    services.runs_expire(now=later(now, 60))
    with pytest.raises(Conflict) as refusal:
        services.run_report(machine=gpu.machine, report=report_for(run), now=later(now, 61))
    assert refusal.value.code == "stale_state"
    assert not Result.objects.exists()


def test_a_failure_is_asked_for_again_with_growing_waits_and_at_once_when_the_host_reports_in(
    gpu: Gpu, now: datetime
) -> None:
    waits = []
    at = later(now, 1)
    for _time in range(5):
        run = run_offered(gpu, now=at)
        for _twice in range(2):
            services.run_fail(machine=gpu.machine, failure=failure_for(run, "no_cuda"), now=at)
        again = Run.objects.get(status="requested")
        waits.append((again.not_before - at) / MINUTE)
        at = again.not_before
    assert waits == [2, 10, 60, 360, 360]
    assert Run.objects.filter(status="failed", reason="no_cuda").count() == 5
    services.runs_request_for_machine(gpu.machine_id)
    assert Run.objects.get(status="requested").not_before <= clock.now()


def test_a_retired_machine_keeps_no_run_and_no_claim(gpu: Gpu, now: datetime) -> None:
    run = run_offered(gpu, now=later(now, 1))
    machine_retire(machine=gpu.machine, actor="tests", now=later(now, 2))
    services.runs_request_for_machine(gpu.machine_id)
    assert services.runs_expire(now=later(now, 2)) == 1
    run.refresh_from_db()
    assert (run.status, run.reason) == ("failed", "withdrawn")
    assert not GpuClaim.objects.filter(live=True).exists()
    assert not Run.objects.filter(status="requested").exists()


def test_a_request_for_a_card_that_left_is_withdrawn_even_without_news(gpu: Gpu, now: datetime) -> None:
    machine_retire(machine=gpu.machine, actor="tests", now=later(now, 2))
    assert services.runs_expire(now=later(now, 3)) == 1
    assert Run.objects.get().reason == "withdrawn"


# -- Reporting --------------------------------------------------------------------------------------------------------


def test_a_report_is_stored_judged_and_told_once_however_often_it_arrives(gpu: Gpu, now: datetime) -> None:
    run = run_offered(gpu, now=later(now, 1))
    for _time in range(3):
        services.run_report(machine=gpu.machine, report=report_for(run, tensor_tflops=None), now=later(now, 2))
    verdict = Verdict.objects.get()
    figures = dict(Result.objects.values_list("metric", "value"))
    assert len(figures) == 11
    assert figures["tensor_tflops"] is None
    assert float(figures["fp32_tflops"]) == 35
    assert [reason["code"] for reason in verdict.reasons] == ["missing_tensor"]
    assert (verdict.passed, verdict.simulated) == (False, True)
    assert not GpuClaim.objects.filter(live=True).exists()


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"nonce": "0" * 32}, Conflict, "nonce"),
        ({"suite_version": 2}, Invalid, "suite_version"),
        ({"gpu_uuid": "GPU-other"}, Invalid, "gpu_uuid"),
    ],
)
def test_a_report_that_does_not_fit_moves_nothing(
    gpu: Gpu, now: datetime, change: dict[str, object], error: type[Exception], says: str
) -> None:
    run = run_offered(gpu, now=later(now, 1))
    with pytest.raises(error, match=says):
        services.run_report(machine=gpu.machine, report=replace(report_for(run), **change), now=later(now, 2))
    run.refresh_from_db()
    assert run.status == "offered"
    assert not Result.objects.exists()
    assert GpuClaim.objects.filter(live=True).count() == 1


def test_simulated_figures_are_refused_outside_demo_mode(
    gpu: Gpu, now: datetime, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_offered(gpu, now=later(now, 1))
    settings.DEMO = False
    for disguise in ({}, {"simulated": False}, {"device": "cuda"}):
        with pytest.raises(Denied) as refusal:
            services.run_report(machine=gpu.machine, report=report_for(run, **disguise), now=later(now, 2))
        assert refusal.value.code == "simulated_refused"
    assert not Result.objects.exists()
    real = machine_made(gpu.machine.provider, now=now, simulated=False)
    services.requests.runs_request(gpus=[real.gpus.get()], trigger="enrolment", now=now)
    monkeypatch.setattr(services.dispatch, "matrix_size", lambda _gib: 8)
    genuine = report_for(run_offered(real.gpus.get(), now=later(now, 1)), simulated=False, device="cuda")
    assert services.run_report(machine=real, report=genuine, now=later(now, 2)).status == "verified"


def test_a_processors_figures_are_never_taken_for_a_gpus(gpu: Gpu, now: datetime) -> None:
    run = run_offered(gpu, now=later(now, 1))
    report = report_for(run, simulated=False, device="cpu")
    assert services.run_report(machine=gpu.machine, report=report, now=later(now, 2)).reason == "no_cuda"
    assert not Result.objects.exists()
    assert Run.objects.filter(status="requested", attempt=2).exists()


def test_figures_and_verdicts_cannot_be_rewritten(machine: Machine, now: datetime) -> None:
    baseline_made(machine, now=now, runs=1)
    for statement in (
        "UPDATE benchmarks_result SET value = 1",
        "DELETE FROM benchmarks_verdict",
        "UPDATE benchmarks_threshold SET value = 1",
        "UPDATE benchmarks_run SET trigger = 'weekly'",
    ):
        with pytest.raises(IntegrityError, match="written once"), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(statement)

"""From figures to a standing: staged delisting, review, retests, the fleet's median, and what others are told."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
import time_machine

from accounts.models import Notification, User
from benchmarks import selectors, services
from benchmarks.models import Run, Suite, Threshold, Verdict
from core import clock
from core.errors import Conflict, Denied, NotFound
from core.models import Delivery
from gpunex.wiring import NEWS
from providers.models import Gpu, Machine
from tests.factories.benchmarks import baseline_made, machine_made, provider_made, report_for, run_done, run_offered

pytestmark = pytest.mark.django_db
SLOW = {"fp16_tflops": 100.0}
MINUTE = timedelta(minutes=1)


@pytest.fixture
def now() -> Iterator[datetime]:
    with time_machine.travel(datetime(2026, 6, 1, 12, tzinfo=UTC), tick=False):
        yield clock.now()


@pytest.fixture
def machine(db: None, ada: User, now: datetime) -> Machine:
    return machine_made(provider_made(ada, now=now), now=now)


@pytest.fixture
def gpu(machine: Machine, now: datetime) -> Gpu:
    """A card with a good baseline."""
    return baseline_made(machine, now=now - timedelta(days=1))[0]


def standing(gpu: Gpu) -> Verdict:
    return selectors.verdict_of([gpu.pk])[gpu.pk]


def weekly(gpu: Gpu, at: datetime, **figures: float | None) -> Verdict:
    """A run out of the blue, judged."""
    if not Run.objects.filter(gpu=gpu, status="requested").exists():
        services.requests.runs_request(gpus=[gpu], trigger="weekly", now=at)
    run_done(gpu, now=at, **figures)
    return standing(gpu)


def test_a_healthy_card_is_listed_with_health_and_index(gpu: Gpu) -> None:
    verdict = standing(gpu)
    assert (verdict.passed, verdict.reasons) == (True, [])
    assert verdict.health_percent == Decimal("100.0")
    assert verdict.performance_index == Decimal("118.3")  # √(172/239 × 35/18)
    assert verdict.simulated


def test_a_card_that_starts_below_is_not_listed_says_why_and_is_measured_again_at_once(
    machine: Machine, now: datetime
) -> None:
    (gpu,) = baseline_made(machine, now=now, runs=1, **SLOW)
    verdict = standing(gpu)
    assert not verdict.passed
    assert verdict.reasons == [
        {"code": "below_fp16", "metric": "fp16_tflops", "measured": "100.0000", "limit": "128.250000"}
    ]
    again = Run.objects.get(status="requested")
    assert (again.trigger, again.requested_by, again.not_before) == ("retest", "system", verdict.decided_at)
    run_done(gpu, now=now + MINUTE)
    assert standing(gpu).passed


def test_one_bad_run_between_two_good_ones_delists_nobody(gpu: Gpu, now: datetime) -> None:
    bad = weekly(gpu, now, **SLOW)
    assert (bad.passed, bad.meets_minimum) == (True, False)
    assert Run.objects.get(status="requested").trigger == "retest"
    assert weekly(gpu, now + MINUTE).passed


def test_two_of_three_below_delist_and_a_good_run_lists_again(gpu: Gpu, now: datetime) -> None:
    weekly(gpu, now, **SLOW)
    assert not weekly(gpu, now + MINUTE, **SLOW).passed
    assert not Run.objects.filter(status="requested").exists()  # no loop of retests
    assert weekly(gpu, now + 2 * MINUTE).passed


def test_too_good_to_be_true_waits_for_a_person_and_good_runs_do_not_end_it(
    gpu: Gpu, olga: User, ada: User, now: datetime
) -> None:
    caught = weekly(gpu, now, fp32_tflops=150.0)
    assert (caught.passed, caught.in_review) == (False, True)
    assert caught.reasons[0]["code"] == "above_peak_fp32"
    still = weekly(gpu, now + MINUTE)
    assert (still.passed, still.in_review, still.meets_minimum) == (False, True, True)
    with pytest.raises(Denied):
        services.verdict_review_close(gpu=gpu, actor=ada, now=now)
    closed = services.verdict_review_close(gpu=gpu, actor=olga, now=now + 2 * MINUTE)
    assert (closed.passed, closed.in_review, closed.decided_by) == (True, False, f"user:{olga.pk}")
    with pytest.raises(Conflict, match="not in review"):
        services.verdict_review_close(gpu=gpu, actor=olga, now=now + 3 * MINUTE)


def test_each_verdict_is_news_about_the_gpu(gpu: Gpu, monkeypatch: pytest.MonkeyPatch, now: datetime) -> None:
    monkeypatch.setitem(NEWS.topics, "benchmark.verdict", ("tests.listener",))  # type: ignore[arg-type]
    weekly(gpu, now)
    assert Delivery.objects.get(consumer="tests.listener").subject == gpu.pk


def test_limits_are_dated_rows(gpu: Gpu, now: datetime) -> None:
    suite = Suite.objects.get()
    Threshold.objects.create(
        suite=suite, name="latency_ms", value=10, valid_from=now + MINUTE, reason="Tests want it faster."
    )
    assert weekly(gpu, now).meets_minimum
    later = weekly(gpu, now + 2 * MINUTE)
    assert [reason["code"] for reason in later.reasons] == ["latency_too_high"]
    assert selectors.limits_at(suite, now).latency_ms == 300


def test_twenty_machines_set_their_own_standard(ada: User, now: datetime) -> None:
    provider = provider_made(ada, now=now)
    machines = [machine_made(provider, now=now) for _machine in range(20)]
    for machine in machines[:-1]:
        baseline_made(machine, now=now, runs=1, fp32_tflops=40.0)
    suite = Suite.objects.get()
    facts = {"model_id": machines[0].gpus.get().model_id, "suite": suite, "limits": selectors.limits_at(suite, now)}
    assert selectors.fleet_medians(simulated=True, **facts) is None
    # 30 is above 75 % of the reference (26.25), but below 80 % of what the fleet measures (32).
    baseline_made(machines[-1], now=now, runs=1, fp32_tflops=30.0)
    assert standing(machines[-1].gpus.get()).passed
    medians = selectors.fleet_medians(simulated=True, **facts)
    assert medians is not None
    assert medians["fp32_tflops"] == 40
    assert selectors.fleet_medians(simulated=False, **facts) is None
    found = weekly(machines[-1].gpus.get(), now + MINUTE, fp32_tflops=30.0)
    assert [reason["code"] for reason in found.reasons] == ["below_fp32"]


def mails(kind: str) -> list[Notification]:
    return list(Notification.objects.filter(kind=kind).order_by("created_at"))


def test_the_owner_is_written_to_when_the_standing_changes_with_what_to_do(gpu: Gpu, ada: User, now: datetime) -> None:
    weekly(gpu, now, **SLOW)
    assert not mails("benchmark_delisted")  # still listed, measured again
    weekly(gpu, now + MINUTE, **SLOW)
    weekly(gpu, now + 2 * MINUTE, **SLOW)
    (told,) = mails("benchmark_delisted")
    assert told.user == ada
    assert told.subject == "NVIDIA L40S 48 GB in machine-1 is not offered for now"
    assert "FP16 is below the minimum." in told.body
    assert "nvidia-smi" in told.body
    assert not mails("benchmark_listed")
    weekly(gpu, now + 3 * MINUTE)
    (told,) = mails("benchmark_listed")
    assert "offered again" in told.subject


def test_a_new_cards_first_bad_run_alarms_nobody_its_second_does_once(machine: Machine, now: datetime) -> None:
    baseline_made(machine, now=now, runs=1, **SLOW)
    assert not mails("benchmark_delisted")
    gpu = machine.gpus.select_related("machine").get()
    for number in range(1, 4):
        weekly(gpu, now + number * MINUTE, **SLOW)
    assert len(mails("benchmark_delisted")) == 1


def test_a_review_is_told_as_such(gpu: Gpu, now: datetime) -> None:
    weekly(gpu, now, fp32_tflops=150.0)
    weekly(gpu, now + MINUTE, fp32_tflops=150.0)
    (told,) = mails("benchmark_delisted")
    assert "A person looks at them" in told.body


# -- Retests ----------------------------------------------------------------------------------------------------------


def test_the_owner_may_retest_once_an_hour(gpu: Gpu, ada: User, now: datetime) -> None:
    run = services.run_retest(gpu=gpu, actor=ada, now=now)
    assert (run.trigger, run.requested_by) == ("retest", f"user:{ada.pk}")
    with pytest.raises(Conflict) as refusal:
        services.run_retest(gpu=gpu, actor=ada, now=now)
    assert refusal.value.code == "already_requested"
    run_done(gpu, now=now)
    with pytest.raises(Conflict, match="in 1 minutes") as refusal:
        services.run_retest(gpu=gpu, actor=ada, now=now + timedelta(minutes=59, seconds=30))
    assert refusal.value.code == "retest_too_soon"
    assert services.run_retest(gpu=gpu, actor=ada, now=now + timedelta(hours=1))


def test_nobody_else_may(gpu: Gpu, eve: User, now: datetime) -> None:
    with pytest.raises(NotFound):
        services.run_retest(gpu=gpu, actor=eve, now=now)
    assert not Run.objects.filter(status="requested").exists()


def test_a_retest_overtakes_a_repetition_that_waits(machine: Machine, ada: User, now: datetime) -> None:
    gpu = machine.gpus.select_related("machine__provider").get()
    services.requests.runs_request(gpus=[gpu], trigger="enrolment", now=now)
    run = run_offered(gpu, now=now)
    services.runs_expire(now=now + timedelta(hours=1))
    services.run_retest(gpu=gpu, actor=ada, now=now + timedelta(hours=1))
    assert set(Run.objects.values_list("status", "reason")) == {
        ("expired", "no_answer"),
        ("failed", "superseded"),
        ("requested", ""),
    }
    assert run_offered(gpu, now=now + timedelta(hours=1)).pk != run.pk


# -- What reliability reads -------------------------------------------------------------------------------------------


def test_service_begins_with_the_first_pass_and_delisted_time_is_a_span(gpu: Gpu, now: datetime) -> None:
    first = Verdict.objects.earliest("decided_at").decided_at
    weekly(gpu, now, **SLOW)
    out = weekly(gpu, now + MINUTE, **SLOW).decided_at
    back = weekly(gpu, now + 60 * MINUTE).decided_at
    service = selectors.service_of([gpu.pk], until=now + 90 * MINUTE)[gpu.pk]
    assert (service.since, service.delisted) == (first, [(out, back)])
    assert selectors.service_of([gpu.pk], until=now + 30 * MINUTE)[gpu.pk].delisted == [(out, now + 30 * MINUTE)]
    assert selectors.service_of([gpu.pk], until=first - MINUTE) == {}


def test_the_baseline_is_the_median_of_the_first_three(gpu: Gpu, now: datetime) -> None:
    weekly(gpu, now, fp32_tflops=70.0)
    assert selectors.benchmark_baseline(gpu.pk, as_of=now + MINUTE)["fp32_tflops"] == 35
    assert len(selectors.comparable_runs([gpu.pk], as_of=now + MINUTE)[gpu.pk]) == 4
    assert len(selectors.comparable_runs([gpu.pk], as_of=now)[gpu.pk]) == 3


def test_a_report_costs_a_bounded_number_of_queries(
    machine: Machine, now: datetime, django_assert_max_num_queries: object
) -> None:
    gpu = machine.gpus.select_related("machine").get()
    services.requests.runs_request(gpus=[gpu], trigger="enrolment", now=now)
    run = run_offered(gpu, now=now)
    report = report_for(run)
    with django_assert_max_num_queries(41):  # type: ignore[operator]
        services.run_report(machine=machine, report=report, now=now)

"""The benchmark tab: figures against limits, why a card is not offered, what to do, and the retest button."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from accounts.models import User
from benchmarks.models import Run
from benchmarks.selectors import benchmark_cards
from benchmarks.selectors.guidance import METRICS as LABELS
from benchmarks.selectors.guidance import Explained
from benchmarks.services.requests import runs_request
from benchmarks.verification import METRICS, REASON_CODES
from core import clock
from providers.models import Gpu
from tests.factories.benchmarks import baseline_made, machine_made, provider_made, run_offered

pytestmark = pytest.mark.django_db
SignedIn = Callable[[User], Client]
PATH = "/provider/benchmarks/"


@pytest.fixture
def page(ada: User, signed_in: SignedIn) -> Callable[[], str]:
    client = signed_in(ada)

    def read() -> str:
        answer = client.get(PATH)
        assert answer.status_code == 200
        return answer.content.decode()

    return read


def test_a_healthy_card_shows_its_figures_and_that_they_are_simulated(ada: User, page: Callable[[], str]) -> None:
    now = clock.now() - timedelta(hours=1)
    baseline_made(machine_made(provider_made(ada, now=now), now=now), now=now)
    text = page()
    for expected in (
        "NVIDIA L40S 48 GB",
        "Passed",
        "simulated",
        "100.0",
        "118.3",
        "TFLOPS",
        "≤ 300",
        "≥ 117",
        "<polyline",
    ):
        assert expected in text, expected
    assert "unknown" not in text


def test_a_card_below_the_minimum_says_why_and_what_to_do(ada: User, page: Callable[[], str]) -> None:
    now = clock.now() - timedelta(hours=1)
    machine = machine_made(provider_made(ada, now=now), now=now)
    baseline_made(machine, now=now, runs=2, network_down_mbps=80.0, storage_read_mbps=None)
    text = page()
    for expected in (
        "Not offered until this is mended",
        "Measured 80, limit 117",
        "prefer a cable",
        "Storage read could not be measured",
        "unknown",
    ):
        assert expected in text, expected


def test_before_the_first_verdict_it_says_so_and_shows_progress(ada: User, page: Callable[[], str]) -> None:
    now = clock.now()
    machine = machine_made(provider_made(ada, now=now), now=now)
    gpu = machine.gpus.get()
    runs_request(gpus=[gpu], trigger="enrolment", now=now)
    run = run_offered(gpu, now=now)
    Run.objects.filter(pk=run.pk).update(status="running", progress_percent=40)
    text = page()
    assert "Not measured yet" in text
    assert "40 % done" in text
    assert reverse("benchmarks_retest", args=[gpu.pk]) not in text


def test_without_machines_it_says_what_to_do(ada: User, page: Callable[[], str]) -> None:
    provider_made(ada, now=clock.now())
    assert "No machines yet" in page()


def test_the_retest_button_asks_once_and_then_says_when_again(ada: User, signed_in: SignedIn) -> None:
    now = clock.now() - timedelta(hours=2)
    (gpu,) = baseline_made(machine_made(provider_made(ada, now=now), now=now), now=now)
    client = signed_in(ada)
    path = reverse("benchmarks_retest", args=[gpu.pk])
    assert b"on its way" in client.post(path, follow=True).content
    assert b"already on its way" in client.post(path, follow=True).content
    assert Run.objects.filter(trigger="retest").count() == 1
    assert client.get(path).status_code == 405


def test_what_is_not_yours_does_not_exist(ada: User, eve: User, ravi: User, signed_in: SignedIn) -> None:
    now = clock.now()
    (gpu,) = baseline_made(machine_made(provider_made(ada, now=now), now=now), now=now, runs=1)
    provider_made(eve, now=now)
    before = Run.objects.count()
    for stranger in (eve, ravi):
        assert signed_in(stranger).post(reverse("benchmarks_retest", args=[gpu.pk])).status_code == 404
    assert signed_in(ravi).get(PATH).status_code == 404
    assert gpu.uuid not in signed_in(eve).get(PATH).content.decode()
    assert Run.objects.count() == before


def test_a_fleet_takes_as_many_queries_as_one_machine(ada: User) -> None:
    now = clock.now()
    provider = provider_made(ada, now=now)
    counts = []
    for _machine in range(3):
        baseline_made(machine_made(provider, now=now, cards=2), now=now, runs=1)
        with CaptureQueriesContext(connection) as queries:
            benchmark_cards(provider, now=now)
        counts.append(len(queries))
    assert len(set(counts)) == 1
    assert Gpu.objects.count() == 6


def test_every_metric_and_every_finding_has_words() -> None:
    assert tuple(LABELS) == (
        *("fp32_tflops", "fp16_tflops", "tensor_tflops", "memory_read_gbps", "memory_write_gbps", "memory_copy_gbps"),
        *("storage_read_mbps", "storage_write_mbps", "network_down_mbps", "network_up_mbps", "latency_ms"),
    )
    assert set(LABELS) == set(METRICS)
    for code in REASON_CODES:
        found = Explained({"code": code, "metric": "fp32_tflops", "measured": "1", "limit": None})
        assert found.sentence
        assert found.remedy

"""Readings are kept raw for two hours and rolled up once; unknown stays null, a silence stays a gap."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis
from django.db import connection
from django.test.utils import CaptureQueriesContext
from redis.backoff import NoBackoff
from redis.retry import Retry

from accounts.models import User
from core import valkey as core_valkey
from core.models import Slot
from core.partitions import partitions_keep
from providers.models import Gpu, Machine
from reliability import selectors, services
from reliability.models import TelemetryRollup
from reliability.selectors import live
from reliability.services import heartbeats
from reliability.telemetry import BUCKET, KEPT_SECONDS, SPANS, Reading, bucket_number, roll_up
from tests.factories.benchmarks import machine_made, provider_made
from tests.factories.concurrency import together

pytestmark = pytest.mark.usefixtures("clean_valkey")
T0 = datetime(2026, 6, 1, 12, tzinfo=UTC)
SECOND, PACE, MINUTE = timedelta(seconds=1), timedelta(seconds=15), timedelta(minutes=1)
DUE = T0 + BUCKET + MINUTE
"""When the five minutes from T0 on are rolled up."""


def gpus_of(machine: Machine) -> list[Gpu]:
    return list(machine.gpus.order_by("uuid"))


def say(machine: Machine, at: datetime, **figures: Any) -> None:
    """One heartbeat in which every card of the machine says the same."""
    telemetry = [{"uuid": gpu.uuid, **figures} for gpu in gpus_of(machine)]
    services.heartbeats_note([(machine.pk, at, "boot-1", telemetry)])


def five_minutes(machine: Machine, start: datetime, **figures: Any) -> None:
    for number in range(20):
        say(machine, start + number * PACE, **figures)


def rolled(gpu: Gpu, at: datetime, *, samples: int, power_w: float | None) -> None:
    TelemetryRollup.objects.create(gpu_id=gpu.pk, starts_at=at, samples=samples, power_w=power_w, power_w_peak=power_w)


@pytest.fixture
def machine(db: None, ada: User) -> Machine:
    return machine_made(provider_made(ada, now=T0), now=T0, cards=2)


@pytest.fixture
def gpu(machine: Machine) -> Gpu:
    return gpus_of(machine)[0]


def chart(machine: Machine, span: str, now: datetime, metric: str = "power_w") -> dict[datetime, float | None]:
    series = selectors.telemetry_series(gpus_of(machine), span=SPANS[span], now=now)[0]
    return dict(zip(series.at, series.means[metric], strict=True))


def test_the_mean_and_the_peak_of_what_is_known() -> None:
    rolled = roll_up(
        [Reading(0, {"GPU-a": [10, None, 60, 100, None, None]}), Reading(1, {"GPU-a": [30, None, 70, None, None, 5]})]
    )
    found = rolled["GPU-a"]
    assert (found.samples, found.mean["utilization_percent"], found.mean["power_w"]) == (2, 20, 100)
    assert (found.mean["memory_used_bytes"], found.peak["memory_used_bytes"], found.mean["sm_clock_mhz"]) == (None,) * 3
    assert (found.mean["temperature_c"], found.peak["temperature_c"]) == (65, 70)


def test_five_minutes_become_one_row_per_gpu(machine: Machine) -> None:
    five_minutes(machine, T0, utilization_percent=50, power_w=100, sm_clock_mhz=1410)
    say(machine, T0 + 4 * MINUTE + SECOND, utilization_percent=92, power_w=300, temperature_c=70)
    assert services.telemetry_roll_up(now=DUE) == 2
    rows = list(TelemetryRollup.objects.all())
    assert {row.gpu_id for row in rows} == {gpu.pk for gpu in gpus_of(machine)}
    row = rows[0]
    assert (row.starts_at, row.samples, row.utilization_percent, row.power_w_peak) == (T0, 21, 52, 300)
    assert (row.temperature_c, row.sm_clock_mhz, row.memory_used_bytes) == (70, 1410, None)


def test_what_no_reading_knew_is_null_and_a_silence_has_no_row(machine: Machine) -> None:
    five_minutes(machine, T0, power_w=None)
    services.telemetry_roll_up(now=DUE + BUCKET)
    assert list(TelemetryRollup.objects.values_list("starts_at", "power_w")) == [(T0, None)] * 2


def test_rolling_up_again_late_or_beside_writes_nothing(machine: Machine) -> None:
    five_minutes(machine, T0, power_w=100)
    assert services.telemetry_roll_up(now=DUE) == 2
    say(machine, T0 + 2 * MINUTE, power_w=900)  # a straggler, far too late
    for later in (DUE, DUE + 30 * SECOND, DUE + 90 * MINUTE):
        assert services.telemetry_roll_up(now=later) == 0
    assert set(TelemetryRollup.objects.values_list("power_w_peak", flat=True)) == {100}


def test_a_piece_is_not_closed_before_its_readings_have_arrived(machine: Machine) -> None:
    five_minutes(machine, T0, power_w=100)
    assert services.telemetry_roll_up(now=DUE - SECOND) == 0
    assert services.telemetry_roll_up(now=DUE) == 2


def test_an_hour_without_a_worker_is_made_up_for(machine: Machine) -> None:
    for number in range(12):
        five_minutes(machine, T0 + number * BUCKET, power_w=100 + number)
    assert services.telemetry_roll_up(now=T0 + timedelta(hours=1) + MINUTE) == 24
    gpu = gpus_of(machine)[0]
    means = TelemetryRollup.objects.filter(gpu_id=gpu.pk).order_by("starts_at").values_list("power_w", flat=True)
    assert list(means) == [100 + number for number in range(12)]


def test_cards_nobody_knows_are_left_out(machine: Machine) -> None:
    stranger = {"uuid": "GPU-stranger", "power_w": 1.0}
    services.heartbeats_note([(machine.pk, T0, "boot-1", [stranger])])
    assert services.telemetry_roll_up(now=DUE) == 0


def test_without_valkey_nothing_is_claimed(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    five_minutes(machine, T0, power_w=100)
    away = redis.Redis(port=1, socket_connect_timeout=0.2, retry=Retry(NoBackoff(), 0))
    with monkeypatch.context() as broken:
        broken.setattr(live, "valkey", lambda: away)
        with pytest.raises(redis.RedisError):
            services.telemetry_roll_up(now=DUE)
    assert not Slot.objects.exists()
    assert services.telemetry_roll_up(now=DUE) == 2


def test_ten_workers_roll_up_once(committed_db: str, ada: User) -> None:
    machine = machine_made(provider_made(ada, now=T0), now=T0, cards=2)
    five_minutes(machine, T0, power_w=100)
    results = together(10, lambda _number: services.telemetry_roll_up(now=DUE))
    assert sorted(results) == [0] * 9 + [2]
    assert TelemetryRollup.objects.count() == 2


def test_rows_lie_in_the_partition_of_their_day(committed_db: str, ada: User) -> None:
    partitions_keep(now=T0)
    machine = machine_made(provider_made(ada, now=T0), now=T0)
    five_minutes(machine, T0, power_w=100)
    services.telemetry_roll_up(now=DUE)
    with connection.cursor() as cursor:
        cursor.execute("SELECT tableoid::regclass::text FROM reliability_telemetryrollup")
        assert cursor.fetchall() == [("reliability_telemetryrollup_p20260601",)]


def test_as_many_statements_for_many_machines_as_for_one(db: None, ada: User) -> None:
    provider = provider_made(ada, now=T0)
    counts = []
    for number in range(2):
        start = T0 + number * timedelta(hours=6)
        for machine in [machine_made(provider, now=T0) for _machine in range(1 + 4 * number)]:
            five_minutes(machine, start, power_w=100)
        services.telemetry_roll_up(now=start + MINUTE)  # the pieces before are closed
        with CaptureQueriesContext(connection) as queries:
            assert services.telemetry_roll_up(now=start + BUCKET + MINUTE) == 1 + 4 * number
        counts.append(len(queries))
    assert counts[0] == counts[1] == 6, "slots, cards, and a transaction of claim and rows"


def test_raw_readings_are_bounded_and_forgotten(machine: Machine) -> None:
    for _reading in range(heartbeats.RAW_ENTRIES + 5):
        say(machine, T0, power_w=1)
    key = live.raw_key(bucket_number(T0), machine.pk)
    assert core_valkey.valkey().llen(key) == heartbeats.RAW_ENTRIES
    for name in (key, f"{live.RAW_KEY}{bucket_number(T0)}"):
        assert 0 < core_valkey.valkey().ttl(name) <= KEPT_SECONDS


def test_noting_heartbeats_is_one_round_trip_without_sql(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Callable[..., Any]
) -> None:
    sent = []
    real = redis.client.Pipeline.execute
    monkeypatch.setattr(redis.client.Pipeline, "execute", lambda self, *rest: sent.append(1) or real(self, *rest))
    telemetry = [{"uuid": gpu.uuid, "power_w": 1} for gpu in gpus_of(machine)]
    with django_assert_num_queries(0):
        services.heartbeats_note([(machine.pk, T0 + number * SECOND, "boot-1", telemetry) for number in range(50)])
    assert len(sent) == 1


# -- Charts -----------------------------------------------------------------------------------------------------------


def test_the_live_chart_shows_minutes_and_gaps(machine: Machine) -> None:
    now = T0 + 30 * MINUTE
    five_minutes(machine, T0, power_w=100)
    five_minutes(machine, T0 + 10 * MINUTE, power_w=200)
    found = chart(machine, "2h", now)
    assert len(found) == 121
    assert [found[T0 + minute * MINUTE] for minute in (0, 4, 5, 9, 10, 15)] == [100, 100, None, None, 200, None]


@pytest.mark.parametrize("span", ["24h", "7d", "90d"])
def test_longer_charts_are_made_of_rollups(machine: Machine, gpu: Gpu, span: str) -> None:
    now, step = T0 + timedelta(hours=12), SPANS[span].step
    start = next(point for point in SPANS[span].points(now) if point >= T0 - step)
    rolled(gpu, start, samples=30, power_w=100.0)
    found = chart(machine, span, now)
    assert {at: value for at, value in found.items() if value is not None} == {start: 100}
    assert found[start - step] is None and found[start + step] is None


def test_a_rollup_weighs_as_much_as_its_readings(machine: Machine, gpu: Gpu) -> None:
    for minutes, samples, power in ((0, 30, 100.0), (5, 10, 300.0), (10, 20, None)):
        rolled(gpu, T0 + minutes * MINUTE, samples=samples, power_w=power)
    series = selectors.telemetry_series([gpu], span=SPANS["7d"], now=T0 + timedelta(hours=1))[0]
    at = series.at.index(T0)
    assert (series.means["power_w"][at], series.peaks["power_w"][at]) == (150, 300)


def test_other_peoples_cards_are_not_drawn(machine: Machine, gpu: Gpu) -> None:
    TelemetryRollup.objects.create(gpu_id=machine.pk, starts_at=T0, samples=1, power_w=1)
    assert set(chart(machine, "24h", T0 + MINUTE).values()) == {None}

"""Heartbeats as the sync endpoint hears them, and time that passes in a fleet."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from accounts.models import User
from core import clock
from core.valkey import valkey
from providers.models import Gpu, Machine, Provider
from reliability import services
from reliability.models import MachineHealth, OnlineInterval, TelemetryRollup
from reliability.selectors import live
from reliability.services.heartbeats import flips_write
from reliability.telemetry import METRICS, bucket_number, bucket_start
from tests.factories.benchmarks import baseline_made, machine_made, provider_made

PACE = timedelta(seconds=15)


@pytest.fixture
def clean_valkey() -> Iterator[None]:
    """A Valkey that knows no fleet, before and after."""
    _forget()
    yield
    _forget()


def _forget() -> None:
    keys = [live.EPOCH_KEY, live.SEEN_KEY, live.FIRST_KEY, *valkey().scan_iter(live.RAW_KEY + "*")]
    valkey().delete(*keys)


def beat(*machines: Machine, at: datetime, boot_id: str = "boot-1") -> None:
    """One heartbeat of each machine."""
    services.heartbeats_note([(machine.pk, at, boot_id, []) for machine in machines])


def fleet_runs(*machines: Machine, since: datetime, until: datetime, flush: bool = True) -> datetime:
    """Heartbeats every 15 s from ``since`` to ``until`` (both included), with the periodic verbs; returns the last beat."""
    at = last = since
    while at <= until:
        beat(*machines, at=at)
        if flush:
            services.heartbeats_flush(now=at)
        services.offline_sweep(now=at)
        last, at = at, at + PACE
    return last


def fall_silent(*machines: Machine, at: datetime) -> None:
    """The verdict of a sweep: these machines, heard before, are offline since ``at``."""
    ids = [machine.pk for machine in machines]
    MachineHealth.objects.filter(pk__in=ids).update(state="offline", state_since=at, last_seen_at=at)
    flips_write("offline", [(machine_id, at) for machine_id in ids], now=at)


def week_of(ada: User) -> Provider:
    """A week of Ada's as a provider: a good card and one that is too slow, half a day off, and the scores that follow."""
    now = clock.now()
    start = now - timedelta(days=7)
    provider = provider_made(ada, now=start)
    for figures in ({}, {"fp16_tflops": 60.0}):
        machine = machine_made(provider, now=start)
        baseline_made(machine, now=start, **figures)
        OnlineInterval.objects.create(machine=machine, started_at=start, ended_at=now - timedelta(days=2))
        OnlineInterval.objects.create(machine=machine, started_at=now - timedelta(days=1.5), ended_at=now)
    for days in range(5, -1, -1):
        services.scores_recompute(now=now - timedelta(days=days))
    return provider


def day_of_telemetry(machine: Machine, *, now: datetime) -> None:
    """A day of a machine's life, as charts show it: work and rest by turns, an hour of silence, a card that says no power."""
    gpus = list(machine.gpus.order_by("uuid"))
    rows = []
    for number in range(288):
        at = bucket_start(bucket_number(now) - number - 1)
        if not 100 <= number < 112:
            rows += [_five_minutes(gpu, place, number, at) for place, gpu in enumerate(gpus)]
    TelemetryRollup.objects.bulk_create(rows)
    beats = []
    for number in range(480):
        at = now - number * PACE
        if not 200 <= number < 280:
            row = [(gpu, _five_minutes(gpu, place, number // 20, at)) for place, gpu in enumerate(gpus)]
            beats.append((machine.pk, at, "boot-1", [{"uuid": gpu.uuid, **_said(each)} for gpu, each in row]))
    services.heartbeats_note(list(reversed(beats)))


def _five_minutes(gpu: Gpu, place: int, number: int, at: datetime) -> TelemetryRollup:
    works = (number + 7 * place) % 60 < 40
    wave = (number * 37 + place * 11) % 17
    power = None if place == 1 else 40.0 + wave if works else 12.0
    return TelemetryRollup(
        gpu_id=gpu.pk,
        starts_at=at,
        samples=20,
        utilization_percent=80.0 + wave if works else 0.0,
        memory_used_bytes=(0.6 if works else 0.0) * (gpu.memory_bytes or 0),
        memory_used_bytes_peak=(0.65 if works else 0.0) * (gpu.memory_bytes or 0),
        temperature_c=60.0 + wave / 2 if works else 34.0,
        temperature_c_peak=64.0 + wave / 2 if works else 35.0,
        power_w=power,
        power_w_peak=power,
        sm_clock_mhz=1700.0 + wave if works else 210.0,
        memory_clock_mhz=6250.0 if works else 405.0,
    )


def _said(row: TelemetryRollup) -> dict[str, float | None]:
    return {name: getattr(row, name) for name in METRICS}

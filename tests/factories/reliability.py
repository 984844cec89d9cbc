"""Heartbeats as the sync endpoint hears them, and time that passes in a fleet."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from accounts.models import User
from core import clock
from core.valkey import valkey
from providers.models import Machine, Provider
from reliability import services
from reliability.models import OnlineInterval
from reliability.selectors import live
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

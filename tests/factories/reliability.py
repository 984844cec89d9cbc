"""Heartbeats as the sync endpoint hears them, and time that passes in a fleet."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from core.valkey import valkey
from providers.models import Machine
from reliability import services
from reliability.selectors import live

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

"""A simulated machine with one card, and a run that is offered to it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import time_machine

from accounts.models import User
from benchmarks.models import Run
from benchmarks.services import requests
from core import clock
from providers.models import Machine
from tests.factories.benchmarks import (
    machine_made,
    provider_made,
    run_offered,
)


@pytest.fixture
def now() -> Iterator[datetime]:
    with time_machine.travel(datetime(2026, 6, 1, 12, tzinfo=UTC), tick=False):
        yield clock.now()


@pytest.fixture
def machine(db: None, ada: User, now: datetime) -> Machine:
    return machine_made(provider_made(ada, now=now), now=now)


@pytest.fixture
def run(machine: Machine, now: datetime) -> Run:
    """Offered, on its host."""
    gpu = machine.gpus.get()
    requests.runs_request(gpus=[gpu], trigger="enrolment", now=now)
    return run_offered(gpu, now=now)

"""Two dispatchers and one machine: the law refuses the second offer, and the lock makes that no error."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from threading import Barrier, BrokenBarrierError
from typing import Any

import pytest
from django.db import IntegrityError, connection

from accounts.models import User
from benchmarks import services
from benchmarks.services import dispatch
from benchmarks.services.requests import runs_request
from core import clock
from providers.models import Gpu, GpuClaim
from tests.factories.benchmarks import machine_made, provider_made


@pytest.fixture
def outcomes(committed_db: str, ada: User, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[object]]:
    """Offer two runs of one machine at once, each thread waiting for the other between look and act."""
    now = clock.now()
    machine = machine_made(provider_made(ada, now=now), now=now, cards=2)
    runs_request(gpus=list(Gpu.objects.filter(machine=machine)), trigger="enrolment", now=now)
    at = now + timedelta(minutes=1)
    barrier = Barrier(2)
    claim = dispatch.gpus_claim

    def claim_when_both_have_looked(**arguments: Any) -> bool:
        with suppress(BrokenBarrierError):  # broken: nobody else got this far
            barrier.wait(1.0)
        return claim(**arguments)

    monkeypatch.setattr(dispatch, "gpus_claim", claim_when_both_have_looked)

    def offer(run_id: Any) -> object:
        try:
            return dispatch.run_offer(run_id=run_id, now=at)
        except IntegrityError as error:
            return type(error)
        finally:
            connection.close()

    def race() -> list[object]:
        run_ids = list(dispatch.Run.objects.values_list("pk", flat=True))
        with ThreadPoolExecutor(2) as pool:
            return list(pool.map(offer, run_ids))

    return race


def test_control_without_the_lock_both_go_ahead_and_the_law_has_to_stop_one(
    outcomes: Callable[[], list[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "lock_name_now", lambda _name: True)
    assert set(outcomes()) == {True, IntegrityError}


def test_with_the_lock_one_run_is_offered_and_the_other_waits(outcomes: Callable[[], list[object]]) -> None:
    assert sorted(outcomes()) == [False, True]  # type: ignore[type-var]
    assert GpuClaim.objects.filter(live=True).count() == 1
    assert services.runs_dispatch(now=clock.now() + timedelta(minutes=1)) == 0

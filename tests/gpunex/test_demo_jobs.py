"""Stopping the demo stops its jobs by the platform's doing; jobs that outlive a crash, and other people's, are let be."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from accounts.models import Party
from core import clock
from gpunex.demo.jobs import jobs_stopped_with_us
from gpunex.demo.world import ADA
from gpunex.starter.folder import STOPPED
from reliability.models import Incident, Outcome
from tests.factories.cast import person
from tests.factories.marketplace import Story, story

pytestmark = pytest.mark.django_db


def running(*, in_demo: bool) -> Story:
    now = clock.now()
    found = story(person("Ravi"), now=now)
    if in_demo:
        Party.objects.filter(pk=found.attempt.provider.party_id).update(handle=ADA.handle)
    found.agent.observe(found.attempt, "running", at=now, elapsed=0)
    return found.reload()


def test_what_ended_with_the_demo_was_stopped_by_the_platform(tmp_path: Path) -> None:
    found, now = running(in_demo=True), clock.now()
    (tmp_path / STOPPED).write_text("{}")
    assert jobs_stopped_with_us(tmp_path, now=now) == 1
    assert jobs_stopped_with_us(tmp_path, now=now) == 0, "a stop is dealt with once"
    # The agent's own word for it, as after every `agent stop-jobs`.
    found.agent.end(found.attempt, at=now + timedelta(seconds=9), reason="host_restart", exit_code=143, elapsed=7)
    found.reload()
    assert (found.attempt.status, found.attempt.reason) == ("ended", "platform_stop")
    assert not Incident.objects.filter(machine_id=found.attempt.machine_id).exists()
    assert Outcome.objects.get(source=f"attempt:{found.attempt.pk}").completed is None


def test_a_job_that_had_ended_well_before_the_stop_has_ended_well(tmp_path: Path) -> None:
    found, now = running(in_demo=True), clock.now()
    (tmp_path / STOPPED).write_text("{}")
    jobs_stopped_with_us(tmp_path, now=now)
    found.agent.end(found.attempt, at=now, elapsed=7)
    assert found.reload().job.status == "succeeded"


def test_after_a_crash_jobs_go_on(tmp_path: Path) -> None:
    found = running(in_demo=True)
    assert jobs_stopped_with_us(tmp_path, now=clock.now()) == 0
    assert found.reload().attempt.status == "running"


def test_a_host_that_is_not_the_demos_keeps_its_job(tmp_path: Path) -> None:
    found = running(in_demo=False)
    (tmp_path / STOPPED).write_text("{}")
    assert jobs_stopped_with_us(tmp_path, now=clock.now()) == 0
    assert found.reload().attempt.status == "running"

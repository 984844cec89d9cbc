"""Events are dealt with once, one by one; logs go on where they end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from core import clock
from gpunex.agent_events import NO_INSTANT, events_forget
from gpunex.models import EventSeen
from marketplace.models import Attempt, AttemptEvidence
from marketplace.services import jobs_place
from reliability.models import Incident
from tests.factories.billing import USDC, funded
from tests.factories.cast import person
from tests.factories.marketplace import job_new, listing_new, live_attempt, machine_new, provider_new
from tests.gpunex.hosts import Host, event


@pytest.fixture
def running(db: None) -> tuple[Host, Attempt, str]:
    """A host with a running attempt: (host, attempt, its token)."""
    ravi = person("Ravi")
    funded(ravi, 100 * USDC)
    listing_new()
    job = job_new(ravi)
    jobs_place(now=clock.now())
    attempt = live_attempt(job)
    host = Host(attempt.machine)
    (item,) = host.sync().json()["plan"]
    token = item["body"]["token"]
    host.sync(attempts=[{"attempt_id": str(attempt.pk), "token": token, "state": "running", "elapsed_s": 0}])
    return host, attempt, token


def ended(attempt: Attempt, token: str, **changes: Any) -> dict[str, Any]:
    at = clock.now().isoformat()
    body = {"attempt_id": str(attempt.pk), "token": token, "exit_code": 0, "reason": "completed", "elapsed_s": 3}
    return event("attempt_ended", body | {"oom_killed": False} | changes, at=at)


def test_an_end_is_taken_once_however_often_it_is_told(running: tuple[Host, Attempt, str]) -> None:
    host, attempt, token = running
    told = ended(attempt, token)
    for _ in range(3):
        assert host.events(told).json() == {"accepted": [told["id"]], "refused": []}
    attempt.refresh_from_db()
    assert (attempt.status, attempt.reason, attempt.exit_code) == ("ended", "completed", 0)
    assert EventSeen.objects.filter(event_id=told["id"]).count() == 1


def test_an_end_under_another_token_moves_nothing_and_is_kept(running: tuple[Host, Attempt, str]) -> None:
    host, attempt, _token = running
    told = ended(attempt, "another")
    for _ in range(2):
        assert host.events(told).json()["refused"] == [{"id": told["id"], "code": "stale_token"}]
    attempt.refresh_from_db()
    assert attempt.status == "running"
    assert AttemptEvidence.objects.get(attempt=attempt).code == "stale_token"


def test_one_bad_event_does_not_refuse_its_neighbours(running: tuple[Host, Attempt, str]) -> None:
    host, attempt, token = running
    unknown, incomplete, good = event("moon_landing", {}), event("gpu_xid", {"xid": 79}), ended(attempt, token)
    answer = host.events(unknown, incomplete, good).json()
    assert answer["accepted"] == [good["id"]]
    assert {each["id"]: each["code"] for each in answer["refused"]} == {
        unknown["id"]: "invalid",
        incomplete["id"]: "invalid",
    }


def test_another_machine_cannot_end_the_attempt(running: tuple[Host, Attempt, str]) -> None:
    _host, attempt, token = running
    stranger = Host(machine_new(provider_new(), measured=False))
    told = ended(attempt, token)
    assert stranger.events(told).json()["refused"] == [{"id": told["id"], "code": "not_found"}]
    attempt.refresh_from_db()
    assert attempt.status == "running"


def test_the_same_id_of_another_machine_is_another_event(running: tuple[Host, Attempt, str]) -> None:
    host, attempt, token = running
    told = ended(attempt, token)
    stranger = Host(machine_new(provider_new(), measured=False))
    stranger.events(told)
    assert host.events(told).json()["accepted"] == [told["id"]]


def test_a_hardware_fault_is_the_providers_incident_and_other_xids_are_not(db: None) -> None:
    host = Host(machine_new(provider_new(), measured=False))
    gpu = host.machine.gpus.get()
    at = clock.now().isoformat()
    fault, application = ({"uuid": gpu.uuid, "xid": xid, "at": at} for xid in (79, 31))
    answer = host.events(event("gpu_xid", fault), event("gpu_xid", fault), event("gpu_xid", application))
    assert len(answer.json()["accepted"]) == 3
    incident = Incident.objects.get(machine_id=host.machine.pk)
    assert (incident.gpu_id, incident.reason, incident.owner) == (gpu.pk, "gpu_fault", "provider")


def test_a_host_whose_clock_is_dead_is_heard_once_too(db: None) -> None:
    host = Host(machine_new(provider_new(), measured=False))
    told = event("orphan", {"name": "gpunex-job-x"}, at="1970-01-01T00:00:00+00:00")
    assert host.events(told).json()["accepted"] == host.events(told).json()["accepted"] == [told["id"]]
    seen = EventSeen.objects.get(event_id=told["id"])
    assert seen.occurred_at == NO_INSTANT
    assert events_forget(now=seen.seen_at + timedelta(days=13)) == 0
    assert events_forget(now=seen.seen_at + timedelta(days=15)) == 1


def test_too_many_events_are_refused_as_a_whole(db: None) -> None:
    host = Host(machine_new(provider_new(), measured=False))
    answer = host.events(*(event("orphan", {"name": "x"}) for _ in range(101)))
    assert (answer.status_code, list(answer.json()["fields"])) == (400, ["events"])
    assert not EventSeen.objects.exists()


def test_a_log_goes_on_where_it_ends(running: tuple[Host, Attempt, str]) -> None:
    host, attempt, token = running
    assert host.log(attempt.pk, token=token, offset=0, content=b"hello ").json() == {"next_offset": 6}
    gap = host.log(attempt.pk, token=token, offset=9, content=b"world")
    assert (gap.status_code, gap.json()["next_offset"]) == (409, 6)
    assert host.log(attempt.pk, token=token, offset=6, content=b"world").json() == {"next_offset": 11}
    attempt.refresh_from_db()
    assert attempt.log_bytes == 11


def test_a_log_of_somebody_else_does_not_exist(running: tuple[Host, Attempt, str]) -> None:
    _host, attempt, token = running
    stranger = Host(machine_new(provider_new(), measured=False))
    assert stranger.log(attempt.pk, token=token, offset=0, content=b"x").status_code == 404
    assert stranger.log(uuid4(), token=token, offset=0, content=b"x").status_code == 404

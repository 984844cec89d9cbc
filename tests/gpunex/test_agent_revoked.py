"""A revoked machine says what it likes: nobody believes it."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any
from uuid import uuid4

from agent_protocol.fields import json_write
from core import clock
from core.valkey import valkey
from gpunex.agent_heartbeats import BATCH
from gpunex.models import EventSeen
from marketplace.models import Attempt, AttemptEvidence, Job, Rental
from marketplace.services import jobs_place
from providers.models import Machine
from providers.services import machine_revoke
from reliability.models import MachineHealth
from reliability.selectors import live
from tests.agent.waiting import eventually
from tests.factories.billing import USDC, funded
from tests.factories.cast import person
from tests.factories.marketplace import job_new, listing_new, live_attempt
from tests.gpunex.hosts import Host, event


def state() -> dict[str, Any]:
    """Everything that a report of this machine could move in the database."""
    models = (Machine, MachineHealth, Attempt, Job, Rental, AttemptEvidence, EventSeen)
    return {model.__name__: sorted(model.objects.values(), key=str) for model in models}


def last_seen(machine: Machine) -> datetime:
    BATCH.flush()
    text = valkey().hget(live.SEEN_KEY, str(machine.pk))
    assert text is not None
    return datetime.fromisoformat(json.loads(text)["at"])


def test_a_sync_from_a_revoked_machine_is_refused_and_moves_nothing(committed_db: str) -> None:
    ravi, now = person("Ravi"), clock.now()
    funded(ravi, 100 * USDC)
    listing_new()
    job = job_new(ravi)
    jobs_place(now=now)
    attempt = live_attempt(job)
    host = Host(attempt.machine)
    (item,) = host.sync().json()["plan"]
    told = {"attempt_id": str(attempt.pk), "token": item["body"]["token"]}
    assert host.sync(attempts=[told | {"state": "running", "elapsed_s": 0}]).status_code == 200
    machine_revoke(machine=attempt.machine, actor="test", now=clock.now(), reason="Stolen.")
    # A process that remembers the machine believes it for two seconds at most.
    eventually(lambda: host.sync().status_code == 401, "the revocation is felt", 60, every_s=0.2)

    before, refused_at = state(), clock.now()
    end = told | {"exit_code": 0, "reason": "completed", "elapsed_s": 3_600}
    refusals = (
        host.sync(attempts=[told | {"state": "ended", "exit_code": 0, "reason": "completed", "elapsed_s": 3_600}]),
        host.sync(attempts=[told | {"state": "running", "elapsed_s": 3_600}]),
        host.events(event("attempt_ended", end | {"oom_killed": False}, at=clock.now().isoformat())),
        host.log(attempt.pk, token=told["token"], offset=0, content=b"paid work"),
        host.post("sync", json_write(host.sync_body()), credential=f"gpxa_{uuid4().hex}"),
    )
    assert [answer.status_code for answer in refusals] == [401] * 5
    assert [answer.json()["code"] for answer in refusals[:4]] == ["revoked"] * 4
    assert state() == before
    assert last_seen(attempt.machine) < refused_at
    assert Attempt.objects.get(pk=attempt.pk).status == "running"

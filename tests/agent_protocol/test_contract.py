"""One conversation, held with the platform that the agent's tests use and with the real one: both answer alike.

So what the agent is tested against is what it will meet. Everything said and answered goes through the shared messages.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, Protocol
from uuid import UUID, uuid4

import httpx
import pytest
from django.test import Client

from agent_protocol import messages as wire
from agent_protocol.fields import json_write
from core import clock
from core.ids import secret_hash, secret_new
from gpunex.agent_sessions import MEMORY
from marketplace.services import jobs_place
from providers.models import MachineCredential
from providers.selectors import credentials
from providers.services import enrolment_token_issue, machine_credential_rotate, machine_revoke
from tests.agent.host import attempt_body
from tests.agent.platform import TOKEN, FakePlatform
from tests.agent_protocol.samples import ENROL_REQUEST, SYNC_REQUEST
from tests.factories.billing import USDC, funded
from tests.factories.cast import person
from tests.factories.marketplace import job_new, listing_new, live_attempt, provider_new

Answer = tuple[int, Any]


class Side(Protocol):
    """A platform with one enrolled machine. ``token`` lets another machine join."""

    token: str
    credential: str

    def ask(self, path: str, body: Any, credential: str | None = None) -> Answer: ...

    def attempt(self, **secrets: str) -> tuple[str, str]:
        """(id, token) of an attempt in the machine's plan, which was placed under boot-1."""

    def rotate(self) -> None: ...

    def revoke(self) -> None: ...


class Fake:
    def __init__(self) -> None:
        self.platform, self.token = FakePlatform(), TOKEN
        self.credential = secret_new("gpxa")
        body = ENROL_REQUEST | {"token": TOKEN, "idempotency_key": str(uuid4()), "credential": self.credential}
        assert self.ask("enrol", body)[0] == 201

    def ask(self, path: str, body: Any, credential: str | None = None) -> Answer:
        answer = httpx.post(
            f"{self.platform.url}/agent/v1/{path}",
            content=body if isinstance(body, bytes) else json_write(body),
            headers={"Authorization": f"Bearer {credential or self.credential}"},
            trust_env=False,
            timeout=60,
        )
        return answer.status_code, answer.json()

    def attempt(self, **secrets: str) -> tuple[str, str]:
        body = attempt_body("true", boot_id="boot-1")
        self.platform.plan_put("attempt", self.platform.secrets_put(body, **secrets) if secrets else body)
        return body["attempt_id"], body["token"]

    def rotate(self) -> None:
        self.platform.rotate = True

    def revoke(self) -> None:
        self.platform.revoked = True


class Real:
    def __init__(self) -> None:
        self.listing = listing_new()
        self.machine = self.listing.machine
        self.credential = secret_new("gpxa")
        MachineCredential.objects.create(
            machine=self.machine, secret_hash=secret_hash(self.credential), used_at=clock.now(), created_at=clock.now()
        )
        _row, self.token = enrolment_token_issue(provider=provider_new(), actor="test", now=clock.now())

    def ask(self, path: str, body: Any, credential: str | None = None) -> Answer:
        # Commits and rings do not reach a test's own transaction.
        MEMORY.forget(None)
        credentials._forget_all()
        answer = Client().post(
            f"/agent/v1/{path}",
            body if isinstance(body, bytes) else json_write(body),
            content_type="application/json",
            headers={"Authorization": f"Bearer {credential or self.credential}"},
        )
        return answer.status_code, answer.json()

    def attempt(self, **secrets: str) -> tuple[str, str]:
        ravi = person(f"Ravi{uuid4().hex[:6]}")
        funded(ravi, 100 * USDC)
        job = job_new(ravi, secrets=secrets)
        jobs_place(now=clock.now())
        attempt = live_attempt(job)
        _status, reply = self.ask("sync", sync(1))
        (item,) = wire.SyncReply.parse(reply).plan or ()
        return str(attempt.pk), item.body["token"]

    def rotate(self) -> None:
        machine_credential_rotate(machine=self.machine, actor="test", now=clock.now())

    def revoke(self) -> None:
        machine_revoke(machine=self.machine, actor="test", now=clock.now(), reason="stolen")


@pytest.fixture(params=[Fake, Real], ids=["fake", "real"])
def side(request: pytest.FixtureRequest, db: None) -> Iterator[Side]:
    made = request.param()
    yield made
    if isinstance(made, Fake):
        made.platform.close()


def sync(sequence: int, **changes: Any) -> dict[str, Any]:
    nothing = {"attempts": [], "benchmarks": [], "telemetry": [], "degraded": [], "boot_id": "boot-1"}
    return SYNC_REQUEST | nothing | {"sequence": sequence} | changes


def refused(answer: Answer, status: int) -> wire.RefusalReply:
    assert answer[0] == status, answer
    return wire.RefusalReply.parse(answer[1])


def ended(attempt_id: str, token: str) -> dict[str, Any]:
    body = {"attempt_id": attempt_id, "token": token, "reason": "completed", "oom_killed": False, "exit_code": 0}
    return {"id": str(uuid4()), "kind": "attempt_ended", "occurred_at": clock.now().isoformat(), "body": body}


def test_enrolling_twice_with_the_same_key_is_one_machine(side: Side) -> None:
    body = ENROL_REQUEST | {"token": side.token, "idempotency_key": str(uuid4()), "credential": secret_new("gpxa")}
    body["simulated"] = True
    replies = [side.ask("enrol", body) for _ in range(2)]
    assert [status for status, _body in replies] == [201, 200]
    first, again = (wire.EnrolReply.parse(reply) for _status, reply in replies)
    assert first.machine_id == again.machine_id
    status, reply = side.ask("sync", sync(1), body["credential"])
    assert (status, wire.SyncReply.parse(reply).protocol) == (200, 1)


def test_a_token_that_does_not_exist_is_refused(side: Side) -> None:
    body = ENROL_REQUEST | {"token": "gpxe_nobody", "idempotency_key": str(uuid4()), "credential": secret_new("gpxa")}
    status, reply = side.ask("enrol", body)
    assert 400 <= status < 500
    assert wire.RefusalReply.parse(reply).code


def test_the_plan_comes_once_and_again_when_it_changed(side: Side) -> None:
    attempt_id, token = side.attempt()
    reply = wire.SyncReply.parse(side.ask("sync", sync(2))[1])
    assert reply.plan is not None
    plan = reply.plan[0].typed_body()
    assert isinstance(plan, wire.AttemptPlan)
    assert (plan.attempt_id, plan.token, plan.desired) == (attempt_id, token, "run")
    same = wire.SyncReply.parse(side.ask("sync", sync(3, plan_version=reply.plan_version))[1])
    assert (same.plan, same.plan_version) == (None, reply.plan_version)
    other = wire.SyncReply.parse(side.ask("sync", sync(4, plan_version=reply.plan_version + 1))[1])
    assert other.plan is not None


def test_an_event_is_taken_once_and_an_old_token_is_refused_by_name(side: Side) -> None:
    attempt_id, token = side.attempt()
    running = {"attempt_id": attempt_id, "token": token, "state": "running", "elapsed_s": 0}
    assert side.ask("sync", sync(2, attempts=[running]))[0] == 200
    old, good = ended(attempt_id, "an-old-token"), ended(attempt_id, token)
    orphan = {
        "id": str(uuid4()),
        "kind": "orphan",
        "occurred_at": good["occurred_at"],
        "body": {"name": "gpunex-job-x"},
    }
    replies = [wire.EventsReply.parse(side.ask("events", {"events": [old, good, orphan]})[1]) for _ in range(2)]
    for reply in replies:
        assert reply.accepted == (good["id"], orphan["id"])
        assert [(each.id, each.code) for each in reply.refused] == [(old["id"], "stale_token")]


def test_a_log_goes_on_where_it_ends(side: Side) -> None:
    attempt_id, token = side.attempt()

    def chunk(offset: int, content: bytes, *, final: bool = False) -> Answer:
        data = base64.b64encode(content).decode()
        body = {"token": token, "offset": offset, "data": data, "final": final}
        return side.ask(f"attempts/{attempt_id}/logs", body)

    assert wire.LogReply.parse(chunk(0, b"hel\xff")[1]).next_offset == 4
    assert refused(chunk(9, b"lo"), 409).next_offset == 4
    assert wire.LogReply.parse(chunk(4, b"lo")[1]).next_offset == 6
    assert wire.LogReply.parse(chunk(6, b"", final=True)[1]).next_offset == 6


def test_secrets_come_once_and_to_the_boot_they_are_for(side: Side) -> None:
    attempt_id, token = side.attempt(TOKEN="s3cret-value")
    path, asked = f"attempts/{attempt_id}/secrets", {"token": token, "boot_id": "boot-1"}
    assert "s3cret-value" not in str(side.ask("sync", sync(2)))
    assert refused(side.ask(path, asked | {"token": "an-old-token"}), 409).code == "stale_token"
    assert refused(side.ask(path, asked | {"boot_id": "boot-0"}), 409).code == wire.SECRETS_OTHER_BOOT
    assert refused(side.ask(f"attempts/{uuid4()}/secrets", asked), 404).code == "not_found"
    found = wire.AttemptSecrets.parse(side.ask(path, asked)[1])
    assert (found.environment, found.registry_login) == ({"TOKEN": "s3cret-value"}, None)
    assert [refused(side.ask(path, asked), 409).code for _ in range(2)] == [wire.SECRETS_GONE] * 2
    assert "s3cret-value" not in str(side.ask("sync", sync(3)))


def test_there_are_no_secrets_where_there_are_none(side: Side) -> None:
    attempt_id, token = side.attempt()
    asked = {"token": token, "boot_id": "boot-1"}
    assert refused(side.ask(f"attempts/{attempt_id}/secrets", asked), 409).code == wire.SECRETS_GONE


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("sync", sync(0), "sequence"),
        ("sync", sync(1, attempts=[{"attempt_id": "x"}]), "attempts.0.attempt_id"),
        ("sync", sync(1, stray=True), "stray"),
        ("events", {"events": [{"id": "x"}]}, "events.0.id"),
        ("credential", {"credential": "short"}, "credential"),
        (f"attempts/{UUID(int=7)}/secrets", {"token": "t"}, "boot_id"),
        ("enrol", ENROL_REQUEST | {"idempotency_key": "x"}, "idempotency_key"),
    ],
)
def test_what_is_not_the_protocol_is_refused_by_the_fields_name(
    side: Side, path: str, body: dict[str, Any], field: str
) -> None:
    assert list(refused(side.ask(path, body), 400).fields or {}) == [field]


def test_a_credential_changes_hands_with_an_overlap(side: Side) -> None:
    old, new = side.credential, secret_new("gpxa")
    assert wire.SyncReply.parse(side.ask("sync", sync(1))[1]).rotate_credential is False
    side.rotate()
    assert wire.SyncReply.parse(side.ask("sync", sync(2))[1]).rotate_credential is True
    machine = {wire.CredentialReply.parse(side.ask("credential", {"credential": new})[1]).machine_id for _ in range(2)}
    assert len(machine) == 1
    assert side.ask("sync", sync(3))[0] == 200, "the old one works on"
    assert wire.SyncReply.parse(side.ask("sync", sync(4), new)[1]).rotate_credential is False
    assert refused(side.ask("sync", sync(5), old), 401).code == "credential_replaced"
    assert side.ask("sync", sync(6), new)[0] == 200


def test_who_is_unknown_is_told_otherwise_than_who_was_revoked(side: Side) -> None:
    for path, body in (("sync", sync(1)), ("events", {"events": []})):
        assert refused(side.ask(path, body, secret_new("gpxa")), 401).code != "revoked"
    side.revoke()
    for path, body in (
        ("sync", sync(2)),
        ("events", {"events": []}),
        ("credential", {"credential": secret_new("gpxa")}),
    ):
        assert refused(side.ask(path, body), 401).code == "revoked"

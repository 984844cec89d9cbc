"""A platform on the loopback that holds to the protocol strictly and misbehaves on purpose when told to."""

import hashlib
import json
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

from agent_protocol.errors import ProtocolError
from agent_protocol.fields import json_read
from agent_protocol.messages import (
    SECRETS_GONE,
    SECRETS_OTHER_BOOT,
    AttemptSecrets,
    CredentialRequest,
    EnrolRequest,
    EventBatch,
    LogChunk,
    SecretsRequest,
    SyncRequest,
)
from tests.agent.desk import FakeDesk
from tests.agent.serving import DoubleHandler, DoubleServer

TOKEN = "gpxe_test-token"


class Refusal(Exception):
    def __init__(self, status: int, code: str, **extra: Any) -> None:
        self.status = status
        self.body = {"code": code, "message": code, "fields": None, "request_id": "r", **extra}


@dataclass
class Fault:
    """`count` requests whose path ends so: `status` answers with it; null carries the request out and drops the reply."""

    path: str
    count: int
    status: int | None
    body: dict[str, Any] = field(default_factory=dict)


class FakePlatform:
    """Everything received is parsed by the shared messages; what does not parse is a violation, and fails the test."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.violations: list[str] = []
        self.machines: dict[str, str] = {}
        self.credentials: dict[str, str] = {}
        self.enrolments: list[EnrolRequest] = []
        self.syncs: list[SyncRequest] = []
        self.events: dict[str, dict[str, Any]] = {}
        self.deliveries: list[str] = []
        self.logs: dict[str, bytearray] = {}
        self.log_final: set[str] = set()
        self.plan_version = 1
        self.plan: dict[str, dict[str, Any]] = {}
        self.sealed: dict[str, AttemptSecrets] = {}
        self.secrets_asked: list[str] = []
        self.always_send_plan = False
        self.withhold_items = False
        self.revoked = False
        self.rotate = False
        self.same_machine: str | None = None
        self.replaced: set[str] = set()
        self.clock_ahead_s = 0.0
        self.partitioned = False
        self.accepted_tokens: set[str] = {TOKEN}
        self.faults: list[Fault] = []
        self.minimum_seen: dict[str, int] = {}
        self.bells = 0
        self.bench = FakeDesk()
        self._ring = threading.Condition(self.lock)
        self._rings: list[str] = []
        self._sequences: dict[tuple[str, str], int] = {}
        self._closing = False
        platform = self

        class Handler(_Handler):
            owner = platform

        self._server = DoubleServer(Handler)
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        return self._server.server_port

    def close(self) -> None:
        with self._ring:
            self._closing = True
            self._ring.notify_all()
        self._server.shutdown()
        self._server.server_close()

    # What a test says

    def plan_put(self, kind: str, body: dict[str, Any]) -> None:
        key = body["attempt_id"] if kind == "attempt" else body["run_id"]
        with self.lock:
            self.plan[key] = {"kind": kind, "key": key, "body": body}
            self.plan_version += 1

    def secrets_put(
        self, body: dict[str, Any], login: dict[str, Any] | None = None, **environment: str
    ) -> dict[str, Any]:
        """The body of an attempt that has secrets, which are handed out once."""
        reply = AttemptSecrets.parse({"environment": environment, "registry_login": login})
        with self.lock:
            self.sealed[body["attempt_id"]] = reply
        return {**body, "secrets": True, "private_image": login is not None}

    def plan_remove(self, key: str) -> None:
        with self.lock:
            del self.plan[key]
            self.plan_version += 1

    def attempt_stop(self, attempt_id: str, reason: str) -> None:
        with self.lock:
            body = {**self.plan[attempt_id]["body"], "desired": "stop", "stop_reason": reason}
            self.plan_put("attempt", body)

    def ring(self, event: str = "ring") -> None:
        with self._ring:
            self._rings.append(event)
            self._ring.notify_all()

    def fault(self, path: str, *, count: int, status: int | None = None, **body: Any) -> None:
        with self.lock:
            self.faults.append(Fault(path, count, status, body))

    # What a test sees

    def attempt(self, attempt_id: str) -> dict[str, Any] | None:
        """The newest status of an attempt."""
        with self.lock:
            for sync in reversed(self.syncs):
                for status in sync.attempts:
                    if status.attempt_id == attempt_id:
                        return status.to_dict()
        return None

    def state(self, attempt_id: str) -> str | None:
        status = self.attempt(attempt_id)
        return None if status is None else status["state"]

    def ends(self, attempt_id: str) -> list[dict[str, Any]]:
        with self.lock:
            return [
                event["body"]
                for event in self.events.values()
                if event["kind"] == "attempt_ended" and event["body"]["attempt_id"] == attempt_id
            ]

    def events_of(self, kind: str) -> list[dict[str, Any]]:
        with self.lock:
            return [event["body"] for event in self.events.values() if event["kind"] == kind]

    def log(self, attempt_id: str) -> bytes:
        with self.lock:
            return bytes(self.logs.get(attempt_id, b""))

    def last_sync(self) -> SyncRequest:
        with self.lock:
            return self.syncs[-1]

    # The endpoints

    def enrol(self, body: Any) -> tuple[int, dict[str, Any]]:
        request = EnrolRequest.parse(body)
        with self.lock:
            self.enrolments.append(request)
            if request.token not in self.accepted_tokens:
                raise Refusal(400, "token_invalid")
            known = request.idempotency_key in self.machines
            machine = self.machines.setdefault(request.idempotency_key, self.same_machine or str(uuid4()))
            self.credentials[_hash(request.credential)] = machine
            return (200 if known else 201), {
                "machine_id": machine,
                "server_time": _now(),
                "sync_after_s": 15.0,
                "a_field_of_a_later_release": True,
            }

    def sync(self, body: Any, machine: str) -> dict[str, Any]:
        request = SyncRequest.parse(body)
        with self.lock:
            before = self._sequences.get((machine, request.boot_id), 0)
            if request.sequence <= before:
                self.violations.append(f"sequence went from {before} to {request.sequence}")
            self._sequences[machine, request.boot_id] = request.sequence
            self.syncs.append(request)
            current = request.plan_version == self.plan_version and not self.always_send_plan
            items = None if current or self.withhold_items else list(self.plan.values())
            return {
                "protocol": 1,
                "server_time": _now(self.clock_ahead_s),
                "plan_version": self.plan_version,
                "plan": items,
                "inventory_wanted": request.inventory is None and len(self.syncs) == 1,
                "sync_after_s": 15.0,
                "minimum_agent_version": "0.1.0",
                "rotate_credential": self.rotate,
                "bell": {"path": "/agent/v1/bell", "ticket": "ticket"},
            }

    def take_credential(self, body: Any, machine: str) -> dict[str, Any]:
        """The old one works until the new one has synced."""
        request = CredentialRequest.parse(body)
        with self.lock:
            if self.credentials.setdefault(_hash(request.credential), machine) != machine:
                raise Refusal(409, "credential_foreign")
            return {"machine_id": machine, "server_time": _now()}

    def credential_used(self, credential: str) -> None:
        with self.lock:
            used, machine = _hash(credential), self.credentials[_hash(credential)]
            if list(self.credentials)[-1] == used:
                others = {each for each, owner in self.credentials.items() if owner == machine} - {used}
                self.rotate = self.rotate and not others
                self.replaced |= others

    def take_events(self, body: Any) -> dict[str, Any]:
        batch = EventBatch.parse(body)
        accepted, refused = [], []
        with self.lock:
            for event in batch.events:
                self.deliveries.append(event.id)
                typed = event.typed_body().to_dict()
                token = self.plan.get(typed.get("attempt_id", ""), {}).get("body", {}).get("token")
                if token is not None and typed["token"] != token:
                    refused.append({"id": event.id, "code": "stale_token"})
                    continue
                self.events[event.id] = {"kind": event.kind, "body": typed}
                accepted.append(event.id)
        return {"accepted": accepted, "refused": refused}

    def take_log(self, attempt_id: str, body: Any) -> dict[str, Any]:
        chunk = LogChunk.parse(body)
        with self.lock:
            kept = self.logs.setdefault(attempt_id, bytearray())
            if chunk.offset != len(kept):
                raise Refusal(409, "offset_conflict", next_offset=len(kept))
            kept += chunk.content()
            if chunk.final:
                self.log_final.add(attempt_id)
            return {"next_offset": len(kept)}

    def take_secrets(self, attempt_id: str, body: Any) -> dict[str, Any]:
        request = SecretsRequest.parse(body)
        with self.lock:
            self.secrets_asked.append(attempt_id)
            item = self.plan.get(attempt_id)
            if item is None:
                raise Refusal(404, "not_found")
            plan = item["body"]
            if request.token != plan["token"]:
                raise Refusal(409, "stale_token")
            if request.boot_id != (plan.get("boot_id") or self.syncs[-1].boot_id):
                raise Refusal(409, SECRETS_OTHER_BOOT)
            if attempt_id not in self.sealed:
                raise Refusal(409, SECRETS_GONE)
            return self.sealed.pop(attempt_id).to_dict()

    def authorize(self, header: str | None) -> str:
        credential = (header or "").removeprefix("Bearer ")
        with self.lock:
            machine = self.credentials.get(_hash(credential))
            if self.revoked:
                raise Refusal(401, "revoked")
            if _hash(credential) in self.replaced:
                raise Refusal(401, "credential_replaced")
            if machine is None:
                raise Refusal(401, "unknown_credential")
            return machine

    def rings_from(self, position: int) -> list[str] | None:
        """Rings since a position, waiting for one; null when the platform closes."""
        with self._ring:
            self._ring.wait_for(lambda: self._closing or self.partitioned or len(self._rings) > position, timeout=60)
            return None if self._closing or self.partitioned else self._rings[position:]


class _Handler(DoubleHandler):
    owner: FakePlatform

    def do_POST(self) -> None:
        platform, content = self.owner, self.content()
        if content is None:
            return
        if platform.partitioned:
            self.close_connection = True
            return
        fault = self._fault()
        if fault is not None and fault.status is not None:
            self._answer(fault.status, {"code": "made_up", "message": "", **fault.body})
            return
        try:
            status, body = self._route(content)
        except Refusal as refusal:
            status, body = refusal.status, refusal.body
        except ProtocolError as error:
            platform.violations.append(f"{self.path}: {error}")
            status, body = 400, {"code": "invalid", "message": str(error), "fields": {error.field: error.allowed}}
        if fault is not None:
            self.close_connection = True
            return
        self._answer(status, body)

    def _route(self, content: bytes) -> tuple[int, dict[str, Any]]:
        platform, body = self.owner, json_read(content)
        if self.path == "/agent/v1/enrol":
            return platform.enrol(body)
        machine = platform.authorize(self.headers.get("Authorization"))
        if self.path == "/agent/v1/credential":
            return 200, platform.take_credential(body, machine)
        if self.path == "/agent/v1/sync":
            platform.credential_used((self.headers.get("Authorization") or "").removeprefix("Bearer "))
            return 200, platform.sync(body, machine)
        if self.path == "/agent/v1/events":
            return 200, platform.take_events(body)
        parts = self.path.split("/")
        if parts[:4] == ["", "agent", "v1", "bench"]:
            return 200, platform.bench.answer(parts[4], parts[5], body)
        if parts[:4] == ["", "agent", "v1", "attempts"] and parts[5:] == ["logs"]:
            return 200, platform.take_log(parts[4], body)
        if parts[:4] == ["", "agent", "v1", "attempts"] and parts[5:] == ["secrets"]:
            return 200, platform.take_secrets(parts[4], body)
        raise Refusal(404, "not_found")

    def do_GET(self) -> None:
        platform, parts = self.owner, urlsplit(self.path)
        if platform.partitioned or parts.path != "/agent/v1/bell" or parse_qs(parts.query) != {"ticket": ["ticket"]}:
            self.close_connection = True
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        with platform.lock:
            platform.bells += 1
            position = len(platform._rings)
        self.wfile.write(b": open\n\n")
        self.wfile.flush()
        while (rings := platform.rings_from(position)) is not None:
            for ring in rings:
                self.wfile.write(f"event: {ring}\ndata: sync\n\n".encode())
            self.wfile.flush()
            position += len(rings)
        self.close_connection = True

    def _fault(self) -> Fault | None:
        with self.owner.lock:
            for fault in self.owner.faults:
                if fault.count > 0 and self.path.endswith(fault.path):
                    fault.count -= 1
                    return fault
        return None

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _hash(credential: str) -> str:
    return hashlib.sha256(credential.encode()).hexdigest()


def _now(ahead_s: float = 0.0) -> str:
    return (datetime.now(UTC) + timedelta(seconds=ahead_s)).isoformat()

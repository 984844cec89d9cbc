"""A host that speaks to the platform over HTTP, one request at a time, as the test tells it."""

from __future__ import annotations

import base64
from itertools import count
from typing import Any
from uuid import uuid4

from django.test import Client

from agent_protocol import messages as wire
from agent_protocol.fields import json_write
from agent_protocol.version import AGENT_VERSION, PROTOCOL
from core import clock
from core.ids import secret_hash, secret_new
from providers.models import Machine, MachineCredential


class Host:
    """Speaks for ``machine`` with a credential of its own. ``post`` may be replaced, e.g. by one over a socket."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.credential = secret_new("gpxa")
        MachineCredential.objects.create(
            machine=machine, secret_hash=secret_hash(self.credential), used_at=clock.now(), created_at=clock.now()
        )
        self.client = Client()
        self.boot_id = machine.boot_id
        self.sequence = count(1)
        self.plan_version: int | None = None
        self.digest = machine.inventory_digest

    def post(self, path: str, body: Any, *, credential: str | None = None) -> Any:
        raw = body if isinstance(body, bytes) else json_write(body)
        return self.client.post(
            f"/agent/v1/{path}",
            raw,
            content_type="application/json",
            headers={"Authorization": f"Bearer {credential or self.credential}"},
        )

    def sync_body(self, **changes: Any) -> dict[str, Any]:
        body: dict[str, Any] = {
            "protocol": PROTOCOL,
            "sequence": next(self.sequence),
            "boot_id": self.boot_id,
            "agent_version": AGENT_VERSION,
            "sent_at": clock.now().isoformat(),
            "plan_version": self.plan_version,
            "degraded": [],
            "inventory_digest": self.digest,
            "inventory": None,
            "telemetry": [],
            "attempts": [],
            "benchmarks": [],
        }
        return body | changes

    def sync(self, **changes: Any) -> Any:
        """The answer; a plan in it is taken over, as an agent does."""
        answer = self.post("sync", self.sync_body(**changes))
        if answer.status_code == 200:
            wire.SyncReply.parse(answer.json())
            if answer.json()["plan"] is not None:
                self.plan_version = answer.json()["plan_version"]
        return answer

    def events(self, *events: dict[str, Any]) -> Any:
        answer = self.post("events", {"events": list(events)})
        if answer.status_code == 200:
            wire.EventsReply.parse(answer.json())
        return answer

    def log(self, attempt_id: object, *, token: str, offset: int, content: bytes, final: bool = False) -> Any:
        body = {"token": token, "offset": offset, "data": base64.b64encode(content).decode(), "final": final}
        return self.post(f"attempts/{attempt_id}/logs", body)


def event(
    kind: str, body: dict[str, Any], *, at: str = "2026-01-01T00:00:00+00:00", id: str | None = None
) -> dict[str, Any]:
    return {"id": id or str(uuid4()), "kind": kind, "occurred_at": at, "body": body}

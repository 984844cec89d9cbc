"""Several web processes behind one address: what one of them does is felt in all of them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx

from agent_protocol.fields import json_write
from core import clock
from core.ids import secret_new
from providers.services import machine_revoke
from tests.factories.marketplace import machine_new, provider_new
from tests.gpunex.hosts import Host
from tests.gpunex.processes import served

WEB = ("--interface", "wsgi", "--workers", "2", "--blocking-threads", "2", "--backpressure", "32")
WARM = 12
"""Below the burst that one process allows a machine; enough that both have seen it."""


def test_replaced_and_revoked_credentials_are_refused_by_every_process(committed_db: str, tmp_path: Path) -> None:
    host = Host(machine_new(provider_new(), measured=False))
    with served("web", *WEB, "gpunex.wsgi:application", log=tmp_path / "web.log") as url:

        def ask(path: str, body: Any, credential: str) -> tuple[int, Any]:
            # A connection each: the kernel hands them to whichever process is free.
            answer = httpx.post(
                f"{url}/agent/v1/{path}",
                content=json_write(body),
                headers={"Authorization": f"Bearer {credential}", "Connection": "close"},
                timeout=60,
                trust_env=False,
            )
            return answer.status_code, answer.json()

        def all_refuse(credential: str, code: str) -> None:
            deadline, in_a_row = time.monotonic() + 120, 0
            while in_a_row < WARM:
                assert time.monotonic() < deadline, f"some process still does not say {code}"
                status, body = ask("events", {"events": []}, credential)
                in_a_row = in_a_row + 1 if (status, body.get("code")) == (401, code) else 0

        old, new = host.credential, secret_new("gpxa")
        assert {ask("events", {"events": []}, old)[0] for _ in range(WARM)} == {200}
        assert ask("credential", {"credential": new}, old)[0] == 200
        assert {ask("events", {"events": []}, old)[0] for _ in range(WARM)} == {200}
        assert ask("sync", host.sync_body(), new)[0] == 200
        all_refuse(old, "credential_replaced")
        assert {ask("events", {"events": []}, new)[0] for _ in range(WARM)} == {200}
        machine_revoke(machine=host.machine, actor="test", now=clock.now(), reason="stolen")
        all_refuse(new, "revoked")
        all_refuse(old, "revoked")

"""A benchmark's bytes and challenge through the real server and the agent's own client."""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

import pytest

from accounts.models import User
from agent.client import PlatformClient, Refused
from agent_protocol import messages as wire
from benchmarks.services import requests
from core import clock
from tests.factories.benchmarks import machine_made, provider_made, run_offered
from tests.gpunex.hosts import Host
from tests.gpunex.processes import web


def test_bytes_pass_the_real_server_and_the_agents_client(committed_db: str, ada: User, tmp_path: Path) -> None:
    """Through granian's body and stream, which the test client does not have."""
    now = clock.now()
    machine = machine_made(provider_made(ada, now=now), now=now)
    requests.runs_request(gpus=[machine.gpus.get()], trigger="enrolment", now=now)
    host, run = Host(machine), run_offered(machine.gpus.get(), now=now)
    database = os.environ["DATABASE_URL"].rpartition("/")[0] + f"/{committed_db}"
    with web(tmp_path / "web.log", DATABASE_URL=database) as url:
        client = PlatformClient(url)
        client.authorize(host.credential)
        nonce = run.challenge["nonce"]
        size = 3 * 1024 * 1024 + 1
        wanted = wire.BenchDownload(nonce=nonce, size_bytes=size)
        assert client.bench_download(str(run.pk), wanted) == size
        assert client.bench_upload(str(run.pk), nonce, b"\x00" * size) == size
        with pytest.raises(Refused) as caught:
            client.bench_upload(str(run.pk), "guessed", b"x" * size)
        assert caught.value.code == "stale_token"
        with pytest.raises(Refused) as caught:
            client.bench_upload(str(run.pk), nonce, b"x" * (wire.MAX_BLOB_BYTES + 1))
        assert caught.value.code == "too_large"
        start = wire.BenchStart(nonce=nonce, attempt=str(uuid4()))
        assert client.bench_start(str(run.pk), start) == client.bench_start(str(run.pk), start)
        client.close()

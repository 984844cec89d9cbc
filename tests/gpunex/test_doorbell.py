"""The doorbell as a process of its own, on a real Valkey: it rings, it revokes, it refuses, it needs no database."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from django.conf import settings

from core import bell
from core.valkey import valkey
from gpunex.doorbell import Doorbell, Listener
from gpunex.embedded import Valkey
from tests.gpunex.processes import doorbell

CHANNEL = "machine-0123"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    # The database URL leads nowhere: a doorbell that wanted one would not answer.
    nowhere = "postgresql://nobody@127.0.0.1:1/none"
    with doorbell(tmp_path_factory.mktemp("doorbell") / "log", DATABASE_URL=nowhere) as url:
        yield url


def listening(url: str, ticket: str, path: str = "/agent/v1/bell"):  # type: ignore[no-untyped-def]
    return httpx.stream("GET", url + path, params={"ticket": ticket}, timeout=10, trust_env=False)


def lines_until(lines: Iterator[str], wanted: str) -> list[str]:
    seen = []
    for line in lines:
        seen.append(line)
        if line == wanted:
            return seen
    raise AssertionError(f"the stream ended without {wanted!r}: {seen}")


def publish(channel: str, event: str) -> int:
    return valkey().publish(bell.CHANNEL_PREFIX + channel, event)


@pytest.mark.parametrize("path", ["/agent/v1/bell", "/bell"])
def test_a_ring_reaches_the_listener_of_its_channel_and_no_other(address: str, path: str) -> None:
    with listening(address, bell.ticket_issue(CHANNEL), path) as response:
        lines = response.iter_lines()
        lines_until(lines, ": listening")
        assert response.headers["content-type"].startswith("text/event-stream")
        publish("machine-other", "revoke")
        publish(CHANNEL, "nonsense")
        publish(CHANNEL, "ring")
        seen = lines_until(lines, "data: sync")
        assert [line for line in seen if line.startswith("event:")] == ["event: ring"]


def test_a_revocation_is_told_and_closes_the_stream(address: str) -> None:
    with listening(address, bell.ticket_issue(CHANNEL)) as response:
        lines = response.iter_lines()
        lines_until(lines, ": listening")
        publish(CHANNEL, "revoke")
        lines_until(lines, "event: revoke")
        assert [line for line in lines if line.startswith("event:")] == []  # the loop ends: the stream was closed


@pytest.mark.parametrize(
    "ticket",
    [
        "",
        "machine-0123",
        f"{CHANNEL}.99999999999.deadbeef",
        f"{CHANNEL}.9999999999999.00",
        f"{CHANNEL}.1.{bell._signature(CHANNEL, 1, settings.BELL_SECRET)}",
    ],
)
def test_a_bad_ticket_opens_nothing(address: str, ticket: str) -> None:
    answer = httpx.get(address + "/bell", params={"ticket": ticket}, trust_env=False)
    assert answer.status_code == 401
    assert answer.json()["code"] == "bad_ticket"


def test_a_ticket_of_one_channel_does_not_open_another() -> None:
    ticket = bell.ticket_issue("page-1").replace("page-1", "page-2")
    assert bell.ticket_channel(ticket, key=settings.BELL_SECRET, unix_now=time.time()) is None


def test_other_paths_and_methods_are_refused(address: str) -> None:
    assert httpx.get(address + "/agent/v1/sync", trust_env=False).status_code == 404
    assert httpx.post(address + "/bell", trust_env=False).status_code == 405


def test_a_listener_that_leaves_is_forgotten(address: str) -> None:
    before = httpx.get(address + "/healthz", trust_env=False).json()["listeners"]
    with listening(address, bell.ticket_issue(CHANNEL)) as response:
        lines = response.iter_lines()
        lines_until(lines, ": listening")
        assert httpx.get(address + "/healthz", trust_env=False).json()["listeners"] == before + 1
    deadline = time.monotonic() + 10
    while httpx.get(address + "/healthz", trust_env=False).json()["listeners"] != before:
        assert time.monotonic() < deadline, "the listener is still counted"


def test_a_valkey_restart_is_survived_and_everybody_is_rung(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    own = Valkey(tmp_path)
    own.start()
    try:
        with (
            doorbell(tmp_path / "log", REDIS_URL=own.url) as url,
            listening(url, bell.ticket_issue(CHANNEL)) as response,
        ):
            lines = response.iter_lines()
            lines_until(lines, ": listening")
            own.stop()
            own.start()
            lines_until(lines, "event: ring")
    finally:
        own.stop()


def test_rings_melt_into_one_and_a_revocation_is_not_taken_back() -> None:
    async def story() -> list[str | None]:
        listener = Listener()
        listener.wake("ring")
        listener.wake("ring")
        heard = [await listener.next_event(1), await listener.next_event(0.01)]
        listener.wake("revoke")
        listener.wake("ring")
        return [*heard, await listener.next_event(1)]

    assert asyncio.run(story()) == ["ring", None, "revoke"]


def test_keep_alive_comments_are_sent_while_nothing_rings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpunex.doorbell.KEEP_ALIVE_SECONDS", 0.01)
    monkeypatch.setattr("gpunex.doorbell.STREAM_SECONDS", 0.05)
    sent: list[bytes] = []

    async def send(message: dict) -> None:  # type: ignore[type-arg]
        sent.append(message.get("body", b""))

    bare = Doorbell(redis_url="", secret="", origin="http://127.0.0.1")
    asyncio.run(bare._send_events(Listener(), send))  # type: ignore[arg-type]
    assert b": still here\n\n" in sent
    assert sent[-1] == b""

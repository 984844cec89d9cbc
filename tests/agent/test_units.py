"""Small parts that are easier to judge alone."""

import threading
from pathlib import Path
from typing import Any

import pytest

from agent.cli import main
from agent.config import Settings, is_loopback, url_check
from agent.errors import AgentError
from agent.hostcheck import engine_name
from agent.leases import GpuLeases
from agent.pacing import Alarm, Backoff, spread
from agent.runtime.docker_answers import LINE_PART_BYTES, lines_mended
from agent.runtime.docker_errors import pull_refused
from agent.state import StateStore
from agent_protocol.version import AGENT_VERSION


@pytest.mark.parametrize(
    ("url", "loopback"),
    [
        ("http://127.0.0.1:8000", True),
        ("http://127.9.9.9", True),
        ("http://localhost", True),
        ("http://[::1]:80", True),
        ("http://127.0.0.1.example.com", False),
        ("http://localhost.example.com", False),
        ("http://example.com", False),
        ("http://0.0.0.0", False),
        ("http://user@example.com#127.0.0.1", False),
    ],
)
def test_loopback_is_an_address_not_a_spelling(url: str, loopback: bool) -> None:
    assert is_loopback(url) is loopback


@pytest.mark.parametrize(
    "url",
    ["", "gpunex.example", "ftp://a.example", "https://", "https://u:p@a.example", "https://a.example?x", "http://a"],
)
def test_a_url_that_is_no_origin_is_refused(url: str) -> None:
    with pytest.raises(AgentError, match="--url"):
        url_check(url)


@pytest.mark.parametrize("interval", [0.0, -1.0, float("nan"), float("inf"), 1e9])
def test_an_absurd_interval_is_refused(interval: float, tmp_path: Path) -> None:
    settings = Settings(
        url="https://a.example", state=tmp_path, runtime="docker", probe="nvml", sync_interval_s=interval
    )
    with pytest.raises(AgentError, match="--sync-interval"):
        settings.check()


def test_a_real_gpu_is_always_handed_out_by_the_engine(tmp_path: Path) -> None:
    settings = Settings(url="https://a.example", state=tmp_path, runtime="docker", probe="nvml", devices="none")
    with pytest.raises(AgentError, match="--devices: found none, allowed: engine"):
        settings.check()


def test_waits_grow_and_are_spread() -> None:
    backoff = Backoff(1.0, 10.0)
    waits = [backoff.next() for _ in range(50)]
    assert 0.5 <= waits[0] <= 1.0
    assert all(5.0 <= wait <= 10.0 for wait in waits[5:])
    backoff.reset()
    assert backoff.next() <= 1.0
    spreads = [spread(15.0) for _ in range(200)]
    assert min(spreads) >= 12.0
    assert max(spreads) <= 18.0
    assert max(spreads) - min(spreads) > 3.0


def test_a_ring_is_not_lost_and_not_kept() -> None:
    stop = threading.Event()
    alarm = Alarm(stop)
    alarm.ring()
    alarm.wait(3600)
    waiter = threading.Thread(target=alarm.wait, args=(3600,))
    waiter.start()
    waiter.join(0.05)
    assert waiter.is_alive(), "the first ring was consumed"
    stop.set()
    alarm.ring()
    waiter.join(5)
    assert not waiter.is_alive()


def test_gpus_are_taken_all_or_none() -> None:
    seen: list[frozenset[str]] = []
    leases = GpuLeases(seen.append)
    assert leases.acquire("one", ("a", "b"), lambda: False)
    assert not leases.acquire("two", ("b", "c"), lambda: True)
    assert leases.acquire("three", ("c",), lambda: False)
    leases.release("one")
    assert leases.acquire("two", ("a", "b"), lambda: True)
    assert seen[-1] == frozenset({"a", "b", "c"})


@pytest.mark.parametrize(
    ("text", "status", "reason"),
    [
        ("manifest unknown: manifest unknown", 404, "image_missing"),
        (
            "pull access denied for x, repository does not exist or may require 'docker login'",
            404,
            "image_unauthorized",
        ),
        ("unauthorized: authentication required", 500, "image_unauthorized"),
        ("toomanyrequests: You have reached your pull rate limit", 500, "registry_rate_limited"),
        ("write /var/lib/docker/x: no space left on device", 500, "host_disk_full"),
        ("Get https://x/v2/: dial tcp: lookup x: no such host", 500, "registry_unavailable"),
        ("received unexpected HTTP status: 503 Service Unavailable", 500, "registry_unavailable"),
        # As other engines, image stores and registries put it.
        ("received unexpected HTTP status: 429 Too Many Requests", 500, "registry_rate_limited"),
        (
            "unexpected status from GET request to https://x/v2/y/manifests/1: 429 Slow Down",
            500,
            "registry_rate_limited",
        ),
        ("failed to fetch oauth token: unexpected status code 429", 500, "registry_rate_limited"),
        ('error parsing HTTP 429 response body: invalid character: "<html>"', 500, "registry_rate_limited"),
        ("toomanyrequests: retry-after: 1.06ms, allowed: 44000/minute", 500, "registry_rate_limited"),
        ("You have reached your unauthenticated pull rate limit", None, "registry_rate_limited"),
        ("quota: Rate exceeded", None, "registry_rate_limited"),
        ("", 429, "registry_rate_limited"),
        ('error parsing HTTP 403 response body: "Forbidden"', 500, "image_unauthorized"),
        ("unexpected status from HEAD request to https://x/v2/y: 401 Unauthorized", 500, "image_unauthorized"),
        ('error parsing HTTP 404 response body: "no page"', 500, "image_missing"),
        ("no matching manifest for linux/amd64 in the manifest list entries", 500, "image_missing"),
        ("net/http: TLS handshake timeout", 500, "registry_unavailable"),
        ("dial tcp 192.0.2.1:443: connect: connection refused", 500, "registry_unavailable"),
        ("context deadline exceeded", 500, "registry_unavailable"),
        ("error parsing HTTP 502 response body", 500, "registry_unavailable"),
        ("open /var/lib/docker/tmp/x: permission denied", 500, "registry_unavailable"),
        # The customer's own words are no registry's.
        ("manifest for x/toomanyrequests:429 not found", 404, "image_missing"),
        ("Get https://x/v2/x/toomanyrequests/manifests/denied: EOF", 500, "registry_unavailable"),
    ],
)
def test_a_failed_pull_has_an_owner(text: str, status: int | None, reason: str) -> None:
    assert pull_refused(text, status, repository="x/toomanyrequests").reason == reason


FULL = b"x" * LINE_PART_BYTES


@pytest.mark.parametrize(
    ("parts", "mended"),
    [
        ([b"a\n", b"b\n"], b"a\nb\n"),
        ([FULL, b"end", b"next\n"], FULL + b"end\nnext\n"),
        ([FULL, FULL, b"end", FULL, b"end", b"x\n"], FULL * 2 + b"end\n" + FULL + b"end\nx\n"),
        # As engines that lose nothing tell it, and where the log ends without a break.
        ([FULL, b"end\n", b"next\n"], FULL + b"end\nnext\n"),
        ([FULL, b"end"], FULL + b"end"),
        ([FULL[1:] + b"\n", b"next"], FULL[1:] + b"\nnext"),
        ([b"a", b"b"], b"ab"),
        ([], b""),
    ],
)
def test_a_line_break_that_the_engine_lost_is_put_back(parts: list[bytes], mended: bytes) -> None:
    assert b"".join(lines_mended(parts)) == mended


def test_a_state_folder_of_another_version_is_left_alone(tmp_path: Path) -> None:
    store = StateStore(tmp_path / "state")
    store._connection.execute("PRAGMA user_version = 99")
    store.close()
    with pytest.raises(AgentError, match="schema 99"):
        StateStore(tmp_path / "state")


def test_a_broken_state_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "agent.sqlite3").write_bytes(b"this is no database" * 100)
    with pytest.raises(AgentError, match=r"agent\.sqlite3"):
        StateStore(tmp_path)


def test_the_sequence_rises_across_restarts_and_begins_anew_with_a_boot(tmp_path: Path) -> None:
    store = StateStore(tmp_path)
    store.identity_create(credential="c", url="u")
    assert [store.sequence_next("boot-1"), store.sequence_next("boot-1")] == [1, 2]
    store.close()
    store = StateStore(tmp_path)
    assert store.sequence_next("boot-1") == 3
    assert store.sequence_next("boot-2") == 1
    store.close()


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert AGENT_VERSION in capsys.readouterr().out


def test_check_names_what_is_missing_and_how_to_mend_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code = main(["check", "--docker-host", f"unix://{tmp_path}/no.sock", "--state", str(tmp_path)])
    printed = capsys.readouterr().out
    assert code == 1
    assert "failed  engine_running: no (needed: yes)" in printed
    assert "systemctl enable --now docker" in printed


@pytest.mark.parametrize(
    ("version", "info", "name"),
    [
        ({"Components": [{"Name": "Engine"}]}, {"SecurityOptions": ["name=seccomp,profile=default"]}, "docker"),
        ({"Components": [{"Name": "Podman Engine"}]}, {}, "podman"),
        ({}, {"SecurityOptions": ["name=seccomp", "name=rootless"]}, "docker-rootless"),
        ({}, {"OperatingSystem": "Docker Desktop", "SecurityOptions": None}, "docker-desktop"),
    ],
)
def test_engines_that_cannot_keep_the_promises_are_told_apart(
    version: dict[str, Any], info: dict[str, Any], name: str
) -> None:
    assert engine_name(version, info) == name

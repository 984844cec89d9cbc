"""Pulls by a real Docker Engine, through the real guard, from registries that ask for a login, limit, fail, or say nothing."""

import json
import os
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.attempts import AgentStopping
from agent.runtime import docker_images
from agent.runtime.base import EngineUnavailable, RuntimeRefused
from agent.runtime.docker import DockerRuntime
from agent_protocol.messages import RegistryLogin
from agent_protocol.reasons import Owner, reason_get
from tests.agent.docker_engine import DockerEngine
from tests.agent.docker_jobs import job, on_docker, settings
from tests.agent.guard_requests import order_of as order
from tests.agent.host import AgentHost, ended
from tests.agent.platform import FakePlatform
from tests.agent.registry import FAILURES, FakeRegistry
from tests.agent.waiting import eventually

pytestmark = pytest.mark.engine

# With what JSON and HTTP would have to escape.
LOGIN = ("robot$ravi+ci", 'hunter2"\\:tok/en')


@pytest.fixture(scope="module")
def registry() -> Iterator[FakeRegistry]:
    made = FakeRegistry()
    yield made
    made.close()


@pytest.fixture(scope="module", params=["basic", "token"])
def private(request: pytest.FixtureRequest, engines: "Engines") -> FakeRegistry:
    return engines.private[request.param]


class Engines:
    """One engine whose guard and agents allow all the registries of this module."""

    def __init__(self, registry: FakeRegistry) -> None:
        self.registry = registry
        self.private = {"basic": FakeRegistry(login=LOGIN), "token": FakeRegistry(login=LOGIN, tokens=True)}
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            self.nobody = f"127.0.0.1:{taken.getsockname()[1]}"
        self.registries = frozenset({registry.name, self.nobody, *(each.name for each in self.private.values())})
        self.engine = DockerEngine(registries=tuple(self.registries))
        self.engine.start()

    def close(self) -> None:
        for each in self.private.values():
            each.close()
        self.engine.close()


@pytest.fixture(scope="module")
def engines(registry: FakeRegistry) -> Iterator[Engines]:
    made = Engines(registry)
    yield made
    made.close()


@pytest.fixture
def runtime(engines: Engines, tmp_path: Path) -> Iterator[DockerRuntime]:
    made = DockerRuntime(
        replace(settings(engines.engine, engines.registry, tmp_path), registries=engines.registries), "machine-1"
    )
    yield made
    made.close()


def login(registry: FakeRegistry, username: str = LOGIN[0], password: str = LOGIN[1]) -> dict[str, str]:
    return {"registry": registry.name, "username": username, "password": password}


def pulled(runtime: DockerRuntime, body: dict[str, Any], login: dict[str, str] | None = None) -> str:
    given = None if login is None else RegistryLogin.parse(login)
    return runtime.prepare(replace(order(body), login=given), lambda: False)


def refusal(runtime: DockerRuntime, body: dict[str, Any], login: dict[str, str] | None = None) -> RuntimeRefused:
    with pytest.raises(RuntimeRefused) as caught:
        pulled(runtime, body, login)
    return caught.value


# A private image


def test_a_private_image_is_pulled_with_its_login_and_with_nothing_else(
    runtime: DockerRuntime, private: FakeRegistry
) -> None:
    right = job(private, "true"), login(private)
    assert pulled(runtime, *right) == f"{private.name}/busybox@{private.digest}"
    # What one login has brought is here now, and is still nobody else's.
    for other in (None, login(private, password="wrong"), login(private, username="eve")):
        for image in ("busybox:1", f"busybox@{private.digest}"):
            refused = refusal(runtime, job(private, "true", image=f"{private.name}/{image}"), other)
            assert refused.reason == "image_unauthorized"
            assert reason_get(refused.reason).owner is Owner.CUSTOMER
    assert pulled(runtime, *right)


def test_a_login_goes_to_its_own_registry_only(
    runtime: DockerRuntime, registry: FakeRegistry, private: FakeRegistry
) -> None:
    seen = len(registry.seen)
    refused = refusal(runtime, job(registry, "true"), login(private))
    assert (refused.reason, refused.message_code) == ("image_unauthorized", "login_elsewhere")
    assert len(registry.seen) == seen, "it is not even asked"
    assert pulled(runtime, job(registry, "true"))


def test_the_providers_own_logins_are_not_the_customers(
    runtime: DockerRuntime, engines: Engines, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An agent in the home of somebody who is logged in (`docker login`)."""
    private = engines.private["basic"]
    logged_in = {"auths": {private.name: {"username": LOGIN[0], "password": LOGIN[1], "auth": ""}}}
    (tmp_path / "config.json").write_text(json.dumps(logged_in))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    assert refusal(runtime, job(private, "true")).reason == "image_unauthorized"


def test_a_job_from_a_private_image_runs_and_its_login_stays_nowhere(
    platform: FakePlatform, host: AgentHost, engines: Engines, private: FakeRegistry
) -> None:
    on_docker(host, engines.engine, private)
    good = platform.secrets_put(job(private, "echo from a private image; sleep 60"), login(private))
    wrong = platform.secrets_put(job(private, "true"), login(private, password="hunter2-wrong"))
    platform.plan_put("attempt", good)
    platform.plan_put("attempt", wrong)
    host.start()
    report = ended(platform, wrong, timeout_s=120)
    assert (report["reason"], report["exit_code"], report["elapsed_s"]) == ("image_unauthorized", None, None)
    eventually(lambda: platform.log(good["attempt_id"]) == b"from a private image\n", "it runs", 120)
    found = [str(path) for path in _traces(host, engines.engine, b"hunter2")]
    assert found == []
    platform.attempt_stop(good["attempt_id"], "cancelled")
    assert ended(platform, good, timeout_s=120)["reason"] == "cancelled"
    assert "hunter2" not in json.dumps([platform.events, [sync.to_dict() for sync in platform.syncs]])
    assert _traces(host, engines.engine, b"hunter2") == []


def _traces(host: AgentHost, engine: DockerEngine, secret: bytes) -> list[Path]:
    """Files of the agent, the guard and the engine, and arguments and environments of every process, that hold it."""
    processes = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    files = [entry / name for entry in processes for name in ("cmdline", "environ")]
    for top in (host.folder, engine.folder):
        files += [Path(folder, name) for folder, _, names in os.walk(top) for name in names]
    return [path for path in files if secret in _content(path)]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes() if path.is_file() and not path.is_symlink() else b""
    except OSError:
        return b""


# A registry in trouble


@pytest.mark.parametrize("repository", FAILURES)
def test_a_failed_pull_is_blamed_on_whom_it_belongs_to(
    runtime: DockerRuntime, registry: FakeRegistry, repository: str
) -> None:
    refused = refusal(runtime, job(registry, "true", image=f"{registry.name}/{repository}:1"))
    expected = {
        "missing": ("image_missing", Owner.CUSTOMER),
        "private": ("image_unauthorized", Owner.CUSTOMER),
        "limited": ("registry_rate_limited", Owner.PLATFORM),
        "broken": ("registry_unavailable", Owner.PLATFORM),
    }
    reason = reason_get(refused.reason)
    assert (reason.code, reason.owner) == expected[repository.partition("-")[0]]
    assert reason.retried is (reason.owner is Owner.PLATFORM)


def test_a_limit_where_tokens_are_given_out_is_a_limit_too(runtime: DockerRuntime, engines: Engines) -> None:
    private = engines.private["token"]
    for status, reason in ((429, "registry_rate_limited"), (503, "registry_unavailable")):
        private.token_status = status
        try:
            assert refusal(runtime, job(private, "true"), login(private)).reason == reason
        finally:
            private.token_status = None


def test_a_registry_that_is_not_there_is_not_the_customers_fault(runtime: DockerRuntime, engines: Engines) -> None:
    assert (
        refusal(runtime, job(engines.registry, "true", image=f"{engines.nobody}/busybox:1")).reason
        == "registry_unavailable"
    )


def test_a_registry_that_says_nothing_is_left(
    runtime: DockerRuntime, registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch, engines: Engines
) -> None:
    monkeypatch.setattr(docker_images, "PULL_SILENCE_S", 1.0)
    refused = refusal(runtime, job(registry, "true", image=f"{registry.name}/hanging:1"))
    assert (refused.reason, refused.message_code) == ("registry_unavailable", "silent")
    eventually(lambda: engines.engine.guard.connections() == 0, "nothing waits for it any more", 60)


def test_an_engine_that_says_nothing_is_not_taken_for_its_registry(
    runtime: DockerRuntime, registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker_images, "PULL_SILENCE_S", 1.0)
    monkeypatch.setattr(runtime._api, "ping", lambda: False)
    with pytest.raises(EngineUnavailable):
        pulled(runtime, job(registry, "true", image=f"{registry.name}/hanging:1"))


def test_a_pull_that_hangs_can_be_called_off_and_lets_the_agent_end(
    runtime: DockerRuntime, registry: FakeRegistry
) -> None:
    body = job(registry, "true", image=f"{registry.name}/hanging:1")
    asked = len(registry.seen)
    off = threading.Event()
    answers: list[str] = []
    waiter = threading.Thread(target=lambda: answers.append(runtime.prepare(order(body), off.is_set)), daemon=True)
    waiter.start()
    eventually(lambda: any("hanging" in path for path, _ in registry.seen[asked:]), "the registry is asked", 60)
    off.set()
    waiter.join(60)
    assert answers == [f"{registry.name}/hanging:1"]

    def ending() -> bool:
        raise AgentStopping

    with pytest.raises(AgentStopping):
        runtime.prepare(order(body), ending)


def test_a_job_whose_registry_hangs_is_cancelled(
    platform: FakePlatform, host: AgentHost, engines: Engines, registry: FakeRegistry
) -> None:
    on_docker(host, engines.engine, registry)
    body = job(registry, "true", image=f"{registry.name}/hanging:1")
    platform.plan_put("attempt", body)
    host.start()
    eventually(lambda: platform.state(body["attempt_id"]) == "pulling", "it is pulled", 120)
    platform.attempt_stop(body["attempt_id"], "cancelled")
    report = ended(platform, body, timeout_s=120)
    assert (report["reason"], report["elapsed_s"]) == ("cancelled", None)

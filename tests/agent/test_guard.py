"""The real guard before a real Docker Engine: what is refused changes nothing, what is allowed works."""

import json
import re
import socket
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from agent.config import Settings
from agent.confinement import JOB_RESOLVERS, bridge_name
from agent.errors import AgentError
from agent.guard.calls import NEWEST, OLDEST
from agent.guard.server import MAX_CONNECTIONS
from agent.guard.workspace import helper_body
from agent.runtime import sandbox
from agent.runtime.docker import DockerRuntime
from tests.agent import hostile
from tests.agent.docker_engine import DockerEngine
from tests.agent.guard_requests import API, ask, create_body, order_of, raw, request
from tests.agent.host import GPU_A, GPU_B, attempt_body
from tests.agent.hostile_bytes import BYTES, LOGINS
from tests.agent.registry import FakeRegistry
from tests.agent.waiting import eventually

pytestmark = pytest.mark.engine


@dataclass
class Scene:
    """A host with somebody else's container, volume and network, and one job of ours, running."""

    engine: DockerEngine
    names: dict[str, str]
    body: dict[str, Any]
    before: Any

    def ask(self, method: str, target: str, body: Any = None) -> tuple[int, Any]:
        return ask(self.engine.guard.path, method, target, body)

    def raw(self, content: bytes) -> tuple[int, bytes]:
        return raw(self.engine.guard.path, content)

    def filled(self, value: Any) -> Any:
        """With the scene's names in place of `{name}`, in texts however deep."""
        if isinstance(value, str):
            for name, text in self.names.items():
                value = value.replace(f"{{{name}}}", text)
            return value
        if isinstance(value, list):
            return [self.filled(each) for each in value]
        if isinstance(value, dict):
            return {self.filled(name): self.filled(each) for name, each in value.items()}
        return value


def everything(engine: DockerEngine) -> Any:
    """All that the engine has, whoever made it."""
    client = engine.client()
    try:
        containers = [(each["Id"], each["State"], each["Names"]) for each in client.api.containers(all=True)]
        volumes = sorted(each["Name"] for each in client.api.volumes()["Volumes"] or ())
        networks = sorted(each["Id"] for each in client.api.networks())
        images = sorted(each["Id"] for each in client.api.images())
        return sorted(containers), volumes, networks, images
    finally:
        client.close()


@pytest.fixture(scope="module")
def registry() -> Iterator[FakeRegistry]:
    made = FakeRegistry()
    yield made
    made.close()


@pytest.fixture(scope="module")
def engine(registry: FakeRegistry) -> Iterator[DockerEngine]:
    made = DockerEngine(registries=(registry.name,), guard_options=("--gpus", GPU_A, "--job-network", "bridge"))
    made.start()
    made.guard.start()
    yield made
    made.close()


def volume_body(name: str, body: dict[str, Any]) -> dict[str, Any]:
    return {"Name": name, "Driver": "local", "DriverOpts": None, "Labels": body["Labels"]}


@pytest.fixture(scope="module")
def scene(engine: DockerEngine, registry: FakeRegistry) -> Scene:
    path = engine.guard.path
    status, _ = raw(path, request("POST", f"{API}/images/create?fromImage={registry.name}/busybox&tag=1"))
    assert status == 200
    image = f"{registry.name}/busybox@{registry.digest}"
    order = order_of(attempt_body("echo ready; sleep 3600", gpu_uuids=[]))
    spare, other = (order_of(attempt_body("sleep 600", gpu_uuids=[], environment={"SEED": "7"})) for _ in range(2))
    body = create_body(order, image)
    client = engine.client()
    stranger = client.containers.create(image, ["sleep", "3600"], name="stranger", network_mode="none")
    stranger.start()
    # Under a name that could be a job's, but made by somebody else.
    squatted = f"gpunex-job-{uuid.uuid4()}-1"
    for name in ("theirs", squatted):
        client.volumes.create(name)
    image_id = str(client.images.get(image).id)
    client.networks.create("theirs", driver="bridge", options={"com.docker.network.bridge.name": "gpxtheirs"})
    client.close()
    for each in (order, spare):
        assert ask(path, "POST", f"{API}/volumes/create", volume_body(each.name, body))[0] == 201
    status, created = ask(path, "POST", f"{API}/containers/create?name={order.name}", body)
    assert status == 201, created
    assert ask(path, "POST", f"{API}/containers/{order.name}/start")[0] == 204
    names = {
        "stranger": "stranger",
        "stranger_id": stranger.id,
        "volume": "theirs",
        "squatted": squatted,
        "network": "theirs",
        "job": order.name,
        "job_id": created["Id"],
        "spare": spare.name,
        "other": other.name,
        "bridge": bridge_name(other.name),
        "digest": registry.digest,
        "repository": f"{registry.name}/busybox",
        "image_id": image_id.removeprefix("sha256:"),
    }
    return Scene(engine, names, create_body(spare, image), everything(engine))


def refused(scene: Scene, status: int, answer: Any) -> None:
    """The guard itself said no, and nothing has changed."""
    assert status in (403, 404, 409), (status, answer)
    assert isinstance(answer["message"], str)
    if status == 403:
        assert answer["message"].startswith("guard: ")
        assert ", allowed: " in answer["message"]
    assert everything(scene.engine) == scene.before


def test_the_unchanged_request_is_a_good_one(scene: Scene) -> None:
    """Without this the refusals below would prove nothing."""
    spare = scene.names["spare"]
    status, created = scene.ask("POST", f"{API}/containers/create?name={spare}", scene.body)
    assert status == 201, created
    assert scene.ask("DELETE", f"{API}/containers/{spare}?v=1&force=1")[0] == 204
    assert everything(scene.engine) == scene.before


@pytest.mark.parametrize(("where", "value"), hostile.CREATE, ids=lambda each: json.dumps(each, default=str)[:70])
def test_a_hostile_container_is_not_created(scene: Scene, where: str, value: Any) -> None:
    body = hostile.changed(scene.body, where, scene.filled(value))
    assert json.dumps(body) != json.dumps(scene.body)
    status, answer = scene.ask("POST", f"{API}/containers/create?name={scene.names['spare']}", body)
    refused(scene, status, answer)
    assert status == 403
    # For the reason that is meant, not for some other. (GPUs that the environment denies are refused there.)
    named = ".".join(where.replace("~", "/").split("/")[:2]).removesuffix(".+").removesuffix(".-")
    assert f"guard: {named}" in answer["message"] or (named, value) == (
        "HostConfig.DeviceRequests",
        [hostile.GPU_REQUEST],
    )


@pytest.mark.parametrize(("method", "target", "body"), hostile.CALLS, ids=lambda each: json.dumps(each)[:90])
def test_a_hostile_call_is_not_made(scene: Scene, method: str, target: str, body: Any) -> None:
    status, answer = scene.ask(method, scene.filled(target), scene.filled(body))
    refused(scene, status, answer)


@pytest.mark.parametrize("what", BYTES)
def test_what_two_readers_could_understand_differently_is_refused(scene: Scene, what: str) -> None:
    status, content = scene.raw(BYTES[what].replace(b"{job}", scene.names["job"].encode()))
    refused(scene, status, json.loads(content))
    assert status == 403


@pytest.mark.parametrize("what", LOGINS)
def test_a_login_is_for_one_pull_from_one_registry_and_is_never_shown(scene: Scene, what: str) -> None:
    content = LOGINS[what].replace(b"{job}", scene.names["job"].encode())
    status, answer = scene.raw(content)
    refused(scene, status, json.loads(answer))
    assert status == 403
    told = answer.decode() + scene.engine.guard.journal()
    given = re.findall(r"X-Registry-Auth: (\S{12,})", content.decode())
    assert not [word for word in ("hunter2", *given) if word in told]


@pytest.mark.parametrize(
    "doubled",
    ['"HostConfig":{},', '"hostConfig":{"Privileged":true},', '"User":"0",', '"user":"0",', '"Ho\\u017ftConfig":{},'],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_field_twice_is_refused_whatever_its_case(scene: Scene, doubled: str, first: bool) -> None:
    text = json.dumps(scene.body)
    text = "{" + doubled + text[1:] if first else text[:-1] + "," + doubled[:-1] + "}"
    target = f"{API}/containers/create?name={scene.names['spare']}"
    status, content = scene.raw(request("POST", target, text.encode()))
    refused(scene, status, json.loads(content))
    assert status == 403


def test_a_refusal_names_field_found_and_allowed_and_is_journaled_without_secrets(scene: Scene) -> None:
    target = f"{API}/containers/create?name={scene.names['spare']}"
    body = hostile.changed(scene.body, "HostConfig/Privileged", True)
    assert scene.ask("POST", target, body) == (
        403,
        {"message": "guard: HostConfig.Privileged: found true, allowed: false"},
    )
    for secret in ("LD_PRELOAD=hunter2", "hunter2", "TOKEN=hunter2\0"):
        body = {**scene.body, "Env": [*scene.body["Env"], secret]}
        status, answer = scene.ask("POST", target, body)
        assert status == 403
        assert "hunter2" not in answer["message"]
    journal = scene.engine.guard.journal()
    assert "hunter2" not in journal
    lines = [json.loads(line) for line in journal.splitlines()]
    said = [each for each in lines if each.get("where") == "HostConfig.Privileged" and each["found"] == "true"]
    wanted = {"event": "refused", "allowed": "false", "call": "POST /containers/create"}
    assert any(wanted.items() <= each.items() for each in said)  # other tests have tried it elsewhere


# What the agent needs works


def test_only_what_is_ours_is_shown(scene: Scene) -> None:
    """The stranger's image bears the guard's mark as a label, and so does the stranger."""
    client = scene.engine.client()
    assert client.api.inspect_container("stranger")["Config"]["Labels"]["gpunex.guard"] == "1"
    client.close()
    status, listed = scene.ask("GET", f"{API}/containers/json?all=1")
    assert (status, [each["Id"] for each in listed]) == (200, [scene.names["job_id"]])
    _, usage = scene.ask("GET", f"{API}/system/df")
    assert {each["Name"] for each in usage["Volumes"]} == {scene.names["job"], scene.names["spare"]}
    assert set(usage) == {"Volumes"}
    _, info = scene.ask("GET", f"{API}/info")
    assert info["ServerVersion"]
    assert not {"Name", "Labels", "RegistryConfig", "Swarm", "HttpProxy", "Containers", "DockerRootDir"} & set(info)
    _, image = scene.ask("GET", f"{API}/images/{scene.body['Image'].replace('@', '%40')}/json")
    assert set(image) == {"Id", "RepoDigests", "Size", "Config"}
    assert set(image["Config"]) == {"Env", "Volumes"}


def test_strangers_events_are_counted_and_nothing_else(scene: Scene) -> None:
    """The agent reads from the number whether the engine has forgotten some."""
    now = time.time()
    status, content = scene.raw(request("GET", f"{API}/events?since=1&until={now:.9f}"))
    assert status == 200
    events = [json.loads(line) for line in content.splitlines()]
    client = scene.engine.client()
    assert len(events) == len(list(client.api.events(since=1, until=f"{now:.9f}", decode=True)))
    client.close()
    told = [each for each in events if each != {"Type": "elsewhere"}]
    assert {each["Actor"]["ID"] for each in told} >= {scene.names["job_id"]}
    assert all(each["Actor"]["Attributes"]["name"] != "stranger" for each in told)
    assert len(told) < len(events)


def test_the_engines_language_is_one_that_the_guard_knows(scene: Scene) -> None:
    _, version = scene.ask("GET", "/version")
    assert version["ApiVersion"] in {f"1.{minor}" for minor in range(OLDEST, NEWEST + 1)}
    assert "GPUnex guard" in {each["Name"] for each in version["Components"]}


def test_a_log_is_passed_on_as_it_comes_and_let_go_with_its_reader(scene: Scene) -> None:
    with socket.socket(socket.AF_UNIX) as reader:
        reader.settimeout(60)
        reader.connect(str(scene.engine.guard.path))
        reader.sendall(
            request("GET", f"{API}/containers/{scene.names['job']}/logs?stdout=1&stderr=1&follow=1&tail=all")
        )
        seen = b""
        while b"ready" not in seen:
            block = reader.recv(1000)
            assert block, seen
            seen += block
        assert scene.engine.guard.connections() >= 2
    # The job runs on and says nothing; the guard notices that nobody listens.
    eventually(lambda: scene.engine.guard.connections() == 0, "both sides are closed", 60)


def test_more_connections_than_it_serves_are_told_so(scene: Scene) -> None:
    silent = [socket.socket(socket.AF_UNIX) for _ in range(MAX_CONNECTIONS)]
    try:
        for each in silent:
            each.connect(str(scene.engine.guard.path))
        _, answer = eventually(
            lambda: (found := scene.ask("GET", "/_ping"))[0] == 503 and found, "the guard is busy", 60
        )
        assert "64 connections" in answer["message"]
    finally:
        for each in silent:
            each.close()
    eventually(lambda: scene.ask("GET", "/_ping")[0] == 200, "it serves again", 60)


def test_a_job_gets_a_bridge_that_the_egress_rules_can_name(scene: Scene) -> None:
    name = scene.names["spare"]
    body = {
        "Name": name,
        "Driver": "bridge",
        "CheckDuplicate": True,
        "Options": sandbox.network_options(name),
        "Labels": scene.body["Labels"],
    }
    status, created = scene.ask("POST", f"{API}/networks/create", body)
    assert status == 201, created
    interface = Path("/sys/class/net", bridge_name(name))
    assert interface.exists()
    assert interface.name.startswith("gpx")
    assert len(interface.name) == 15
    joined = hostile.changed(scene.body, "HostConfig/NetworkMode", name)
    status, answer = scene.ask("POST", f"{API}/containers/create?name={name}", joined)
    assert (status, "guard: HostConfig.Dns" in answer["message"]) == (403, True)
    joined = hostile.changed(joined, "HostConfig/Dns", list(JOB_RESOLVERS))
    assert scene.ask("POST", f"{API}/containers/create?name={name}", joined)[0] == 201
    assert scene.ask("DELETE", f"{API}/containers/{name}?v=1")[0] == 204
    assert scene.ask("DELETE", f"{API}/networks/{name}")[0] == 204
    assert not interface.exists()
    assert everything(scene.engine) == scene.before


def test_gpus_are_those_that_are_offered(scene: Scene) -> None:
    name = scene.names["spare"]
    for uuids, wanted in (([GPU_A], 201), ([GPU_B], 403), ([GPU_A, GPU_B], 403)):
        order = order_of(attempt_body("true", gpu_uuids=uuids))
        body = create_body(replace(order, name=name), scene.body["Image"])
        status, answer = scene.ask("POST", f"{API}/containers/create?name={name}", body)
        assert status == wanted, answer
        if wanted == 201:
            assert scene.ask("DELETE", f"{API}/containers/{name}?v=1")[0] == 204
        else:
            assert "the GPUs that this machine offers" in answer["message"]


def test_a_workspace_left_half_prepared_is_prepared_again_and_can_be_removed(scene: Scene) -> None:
    """A guard that is killed between creating its helper and removing it."""
    name = scene.names["other"]
    path = scene.engine.folder / "docker.sock"
    for target in (f"{API}/volumes/create", f"{API}/containers/create?name={name}-workspace"):
        body = volume_body(name, scene.body) if "volumes" in target else helper_body(name)
        marked = {**body, "Labels": {**body["Labels"], "gpunex.guard": "1"}}
        assert ask(path, "POST", target, marked)[0] == 201
    assert scene.ask("POST", f"{API}/volumes/create", volume_body(name, scene.body))[0] == 201
    assert ask(path, "POST", f"{API}/containers/create?name={name}-workspace", helper_body(name))[0] == 201
    assert scene.ask("DELETE", f"{API}/volumes/{name}?force=True")[0] == 204
    assert everything(scene.engine) == scene.before


def test_an_engine_that_is_away_is_said_so_and_found_again(scene: Scene) -> None:
    scene.engine.stop()
    try:
        for method, target in (("GET", "/version"), ("GET", f"{API}/containers/{scene.names['job']}/json")):
            status, answer = scene.ask(method, target)
            assert status == 502
            assert answer["message"].startswith("guard: the engine does not answer")
    finally:
        scene.engine.start()
    status, found = scene.ask("GET", f"{API}/containers/{scene.names['job']}/json")
    assert (status, found["State"]["Running"]) == (200, True)


def test_an_agent_does_not_use_an_engine_without_a_guard(engine: DockerEngine, tmp_path: Path) -> None:
    wanted = {"url": "https://gpunex.example", "state": tmp_path, "runtime": "docker", "probe": "nvml"}
    with pytest.raises(AgentError, match="without a guard"):
        DockerRuntime(Settings(**wanted, docker_host=engine.address), "machine-1")
    DockerRuntime(Settings(**wanted, docker_host=engine.guard_address), "machine-1").close()


def test_a_guard_stays_small(scene: Scene) -> None:
    """After all of the above."""
    assert scene.engine.guard.rss_bytes() < 40 * 2**20

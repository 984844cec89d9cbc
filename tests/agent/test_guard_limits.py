"""How much a guard lets exist at once, and what an agent that died half-way leaves behind, on a real Docker Engine."""

import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.confinement import bridge_name
from agent.guard.listing import MOST_GPUS, most
from agent.guard.policy import Policy
from agent.runtime import sandbox
from agent.runtime.base import JobOrder
from agent_protocol.messages import MAX_GPUS
from tests.agent.docker_engine import DockerEngine
from tests.agent.docker_jobs import job, on_docker
from tests.agent.guard_requests import API, ask, create_body, order_of, raw, request
from tests.agent.host import GPU_A, AgentHost, attempt_body, running
from tests.agent.platform import FakePlatform
from tests.agent.registry import FakeRegistry
from tests.agent.waiting import eventually

pytestmark = pytest.mark.engine

ALLOWED = 12


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


def order(machine: str = "machine-1") -> JobOrder:
    made = order_of(attempt_body("sleep 60", gpu_uuids=[]))
    return JobOrder(name=made.name, machine_id=machine, plan=made.plan)


def volume(wanted: JobOrder) -> dict[str, Any]:
    return {"Name": wanted.name, "Driver": "local", "DriverOpts": None, "Labels": sandbox.labels(wanted)}


def network(wanted: JobOrder) -> dict[str, Any]:
    return {
        "Name": wanted.name,
        "Driver": "bridge",
        "CheckDuplicate": True,
        "Options": sandbox.network_options(wanted.name),
        "Labels": sandbox.labels(wanted),
    }


def names(engine: DockerEngine) -> dict[str, set[str]]:
    """Of what jobs have, whoever made it."""
    client = engine.client()
    try:
        found = {
            "containers": {each["Names"][0].lstrip("/") for each in client.api.containers(all=True)},
            "volumes": {each["Name"] for each in client.api.volumes()["Volumes"] or ()},
            "networks": {each["Name"] for each in client.api.networks()},
        }
    finally:
        client.close()
    return {kind: {name for name in each if name.startswith("gpunex-job-")} for kind, each in found.items()}


def test_the_limits_follow_from_the_gpus_that_are_offered() -> None:
    assert most(Policy(gpus=frozenset({GPU_A}))) == ALLOWED
    assert most(Policy(gpus=frozenset(f"GPU-{number}" for number in range(8)))) == 40
    assert most(Policy()) == most(Policy(gpus=frozenset(f"GPU-{number}" for number in range(MOST_GPUS))))
    assert MOST_GPUS == MAX_GPUS


def test_an_agent_fills_no_host(engine: DockerEngine, registry: FakeRegistry) -> None:
    """Volumes, networks, containers, one after the other and then many at a time."""
    path = engine.guard.path
    assert raw(path, request("POST", f"{API}/images/create?fromImage={registry.name}/busybox&tag=1"))[0] == 200
    image = f"{registry.name}/busybox@{registry.digest}"
    orders = [order() for _ in range(ALLOWED + 1)]
    for kind, body in (("volumes", volume), ("networks", network)):
        for each in orders[:ALLOWED]:
            status, answer = ask(path, "POST", f"{API}/{kind}/create", body(each))
            assert status == 201, answer
        status, answer = ask(path, "POST", f"{API}/{kind}/create", body(orders[-1]))
        assert (status, answer["message"]) == (
            403,
            f"guard: {kind}: found {ALLOWED}, allowed: at most {ALLOWED} at once on this machine",
        )
        assert len(names(engine)[kind]) == ALLOWED
        # What is there already may be asked for again: a create is repeated when its answer was lost.
        assert ask(path, "POST", f"{API}/{kind}/create", body(orders[0]))[0] in (201, 409)

    # One volume more, made by somebody else, would give a container its place.
    client = engine.client()
    client.api.create_volume(orders[-1].name, labels=sandbox.labels(orders[-1]) | {"gpunex.guard": "1"})
    client.close()

    def create(wanted: JobOrder, answers: list[tuple[int, Any]]) -> None:
        body = create_body(wanted, image)
        answers.append(ask(path, "POST", f"{API}/containers/create?name={wanted.name}", body))

    answers: list[tuple[int, Any]] = []
    threads = [threading.Thread(target=create, args=(each, answers)) for each in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(status for status, _ in answers) == [201] * ALLOWED + [403]
    assert next(said["message"] for status, said in answers if status == 403).startswith("guard: containers: found")
    assert len(names(engine)["containers"]) == ALLOWED

    for each in orders:
        for target in (f"containers/{each.name}?v=1&force=1", f"volumes/{each.name}", f"networks/{each.name}"):
            ask(path, "DELETE", f"{API}/{target}")
    assert names(engine) == {"containers": set(), "volumes": set(), "networks": set()}
    fresh = order()
    assert ask(path, "POST", f"{API}/volumes/create", volume(fresh))[0] == 201
    assert ask(path, "DELETE", f"{API}/volumes/{fresh.name}")[0] == 204


def test_lists_show_what_is_ours_and_name_and_labels_of_it(engine: DockerEngine) -> None:
    client = engine.client()
    squatter = f"gpunex-job-{uuid.uuid4()}-1"
    client.api.create_volume("theirs", labels={"gpunex.guard": "1"})
    client.api.create_volume(squatter)
    client.api.create_network("theirs", driver="bridge", internal=True)
    ours = order()
    path = engine.guard.path
    try:
        assert ask(path, "POST", f"{API}/volumes/create", volume(ours))[0] == 201
        assert ask(path, "POST", f"{API}/networks/create", network(ours))[0] == 201
        labels = sandbox.labels(ours) | {"gpunex.guard": "1"}
        row = {"Name": ours.name, "Labels": labels}
        assert ask(path, "GET", f"{API}/volumes") == (200, {"Volumes": [row]})
        assert ask(path, "GET", f"{API}/networks") == (200, [row])
        elsewhere = "%7B%22label%22%3A%5B%22gpunex.machine_id%3Dmachine-2%22%5D%7D"
        assert ask(path, "GET", f"{API}/volumes?filters={elsewhere}") == (200, {"Volumes": []})
        assert ask(path, "GET", f"{API}/networks?filters={elsewhere}") == (200, [])
    finally:
        for target in (f"networks/{ours.name}", f"volumes/{ours.name}"):
            ask(path, "DELETE", f"{API}/{target}")
        client.api.remove_volume("theirs")
        client.api.remove_volume(squatter)
        client.api.remove_network("theirs")
        client.close()


def test_what_a_dead_agent_left_half_removed_is_removed_by_the_next(
    platform: FakePlatform, host: AgentHost, engine: DockerEngine, registry: FakeRegistry
) -> None:
    """It died between the removal of a container and of its network and volume; and before a container was made."""
    on_docker(host, engine, registry)
    lives, dies = job(registry, "sleep 600"), job(registry, "sleep 600")
    for body in (lives, dies):
        platform.plan_put("attempt", body)
    host.start()
    for body in (lives, dies):
        running(platform, body)
    host.kill()
    (machine,) = platform.machines.values()
    path = engine.guard.path
    died = order_of(dies)
    assert ask(path, "DELETE", f"{API}/containers/{died.name}?v=1&force=1")[0] == 204
    half_made, others = order(machine), order("another-machine")
    for each in (JobOrder(name=died.name, machine_id=machine, plan=died.plan), half_made, others):
        assert ask(path, "POST", f"{API}/networks/create", network(each))[0] == 201
    for each in (half_made, others):
        assert ask(path, "POST", f"{API}/volumes/create", volume(each))[0] == 201
    bridges = {each.name: Path("/sys/class/net", bridge_name(each.name)) for each in (died, half_made, others)}
    assert all(bridge.exists() for bridge in bridges.values())
    host.sql("DELETE FROM attempt WHERE attempt_id = ?", dies["attempt_id"])
    platform.plan_remove(dies["attempt_id"])
    host.start()
    stays = order_of(lives).name
    expected = {"containers": {stays}, "volumes": {stays, others.name}, "networks": {others.name}}
    eventually(lambda: names(engine) == expected, "the leftovers are gone, and nothing else", 120)
    assert [name for name, bridge in bridges.items() if bridge.exists()] == [others.name]
    assert platform.events_of("orphan") == [], "no job was found"
    assert platform.state(lives["attempt_id"]) == "running"
    for target in (f"networks/{others.name}", f"volumes/{others.name}"):
        assert ask(path, "DELETE", f"{API}/{target}")[0] == 204

"""The installer on a real Docker Engine: the real agent in a container enrols with a platform, and goes again."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from tests.agent import agent_image
from tests.agent.docker_engine import DockerEngine
from tests.agent.door import Door
from tests.agent.installer import CARD_A, CARD_B, Machine
from tests.agent.network import NFT, Namespace
from tests.agent.platform import TOKEN, FakePlatform
from tests.agent.registry import FakeRegistry
from tests.agent.waiting import eventually

pytestmark = [pytest.mark.engine, pytest.mark.netfilter]
STATE = "gpunex-agent-state"


@pytest.fixture(scope="module")
def registry() -> Iterator[FakeRegistry]:
    made = FakeRegistry()
    yield made
    made.close()


@pytest.fixture(scope="module")
def images(registry: FakeRegistry) -> dict[str, str]:
    """The agent and its guard, and a second release of the agent."""
    newer = agent_image.config("agent")
    newer["Labels"] = {"release": "2"}
    return {
        "agent": f"{registry.name}/agent@{registry.put(agent_image.layer(), agent_image.config('agent'))}",
        "newer": f"{registry.name}/agent@{registry.put(agent_image.layer(), newer)}",
        "guard": f"{registry.name}/guard@{registry.put(agent_image.layer(), agent_image.config('agent.guard'))}",
    }


@pytest.fixture(scope="module")
def shared_engine() -> Iterator[DockerEngine]:
    made = DockerEngine()
    made.start()
    yield made
    made.close()


@pytest.fixture
def engine(shared_engine: DockerEngine) -> Iterator[DockerEngine]:
    yield shared_engine
    client = shared_engine.client()

    def is_clean() -> bool:
        # Requests of an agent that is gone by now may still be under way.
        shared_engine.empty()
        for volume in client.volumes.list():
            volume.remove(force=True)
        client.networks.prune()
        return not client.volumes.list() and not client.containers.list(all=True, ignore_removed=True)

    eventually(is_clean, "nothing is left", timeout_s=60)
    client.close()


@pytest.fixture(scope="module")
def shared_namespace() -> Iterator[Namespace]:
    made = Namespace()
    yield made
    made.close()


@pytest.fixture
def namespace(shared_namespace: Namespace) -> Iterator[Namespace]:
    """Where the installer runs, so that the packet filter it speaks to is not this machine's."""
    yield shared_namespace
    shared_namespace.run(f"{NFT} flush ruleset")


@pytest.fixture
def machine(
    engine: DockerEngine, platform: FakePlatform, namespace: Namespace, images: dict[str, str], tmp_path: Path
) -> Iterator[Machine]:
    made = Machine(
        tmp_path,
        url=platform.url,
        namespace=namespace,
        DOCKER_HOST=engine.address,
        GPUNEX_AGENT_IMAGE=images["agent"],
        GPUNEX_GUARD_IMAGE=images["guard"],
        GPUNEX_MINIMUM_ENGINE="20.10",
        GPUNEX_SYSTEMD=str(tmp_path),
    )
    made.tool("systemctl", f'echo "$*" >>"{tmp_path}/systemctl"')
    made.tool("df", "echo Filesystem; echo '/dev/vda 1000000000 1 900000000 1% /'")
    # Every program that docker is started with, and its environment, as any process of the machine could read them.
    made.tool("docker", f'{{ echo "$*"; env; }} >>"{tmp_path}/seen"; PATH={os.environ["PATH"]} exec docker "$@"')
    with Door(engine, platform._server.server_address[:2]):
        yield made


def life(engine: DockerEngine, name: str = "gpunex-agent") -> Any:
    client = engine.client()
    try:
        return client.api.inspect_container(name)
    except docker.errors.NotFound:
        return None
    finally:
        client.close()


def names(engine: DockerEngine) -> set[str]:
    client = engine.client()
    try:
        return {container.name for container in client.containers.list(all=True, ignore_removed=True)}
    finally:
        client.close()


def installed(done: Any) -> None:
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Online." in done.stdout


def test_a_machine_is_installed_once_updated_and_removed(
    machine: Machine,
    engine: DockerEngine,
    platform: FakePlatform,
    namespace: Namespace,
    images: dict[str, str],
    tmp_path: Path,
) -> None:
    installed(machine.install("--gpus", CARD_A, "--name", "attic", GPUNEX_TOKEN=TOKEN, TOKEN="somebody's"))
    assert names(engine) == {"gpunex-agent", "gpunex-guard"}
    listed = subprocess.run(
        ["docker", "--host", engine.address, "ps"], capture_output=True, text=True, check=True
    ).stdout
    assert any("gpunex-agent" in line and " Up " in line for line in listed.splitlines())
    assert len(platform.machines) == 1
    assert platform.enrolments[0].host.hostname == "attic"
    _is_confined(engine)
    _rules_are(namespace, "open", tmp_path)
    _token_is_nowhere(engine, machine, tmp_path)

    first = life(engine)["Id"]
    installed(machine.install())
    assert life(engine)["Id"] == first, "nothing changed, so nothing is started again"
    assert f"GPUS={CARD_A}\nNAME=attic\nNETWORK=open\n" in (machine.etc / "agent.conf").read_text(), "choices stay"

    job = _job_leave(engine, images["guard"])
    seen = len(platform.syncs)
    installed(machine.install("--update", GPUNEX_AGENT_IMAGE=images["newer"]))
    assert life(engine)["Config"]["Image"] == images["newer"]
    assert len(platform.syncs) > seen
    assert len(platform.machines) == len(platform.enrolments) == 1
    assert life(engine, job)["State"]["Running"], "an update touches no job"

    done = machine.install("--uninstall")
    assert done.returncode == 1 and "add --yes" in done.stderr
    assert life(engine)["State"]["Running"], "it asks first"
    done = machine.install("--uninstall", "--yes")
    assert done.returncode == 0, done.stderr
    assert names(engine) == set()
    client = engine.client()
    assert client.volumes.list() == []
    assert client.images.list() == []
    client.close()
    assert not machine.etc.exists() and not (tmp_path / "gpunex-egress.service").exists()
    assert namespace.run(f"{NFT} list ruleset") == ""
    assert machine.install("--uninstall", "--yes").returncode == 0, "once more changes nothing and is no error"


def _rules_are(namespace: Namespace, mode: str, folder: Path) -> None:
    """Loaded now, and by systemd at the next start of the machine."""
    loaded = namespace.run(f"{NFT} --stateless list table inet gpunex")
    assert f"jump {mode}" in loaded
    unit = (folder / "gpunex-egress.service").read_text()
    command = next(line for line in unit.splitlines() if line.startswith("ExecStart=")).removeprefix("ExecStart=")
    namespace.run(f"{NFT} delete table inet gpunex")
    namespace.run(command)
    assert namespace.run(f"{NFT} --stateless list table inet gpunex") == loaded
    assert (folder / "systemctl").read_text() == "daemon-reload\nenable --now gpunex-egress.service\n"


def test_what_jobs_may_reach_is_the_owners_choice(
    machine: Machine, engine: DockerEngine, namespace: Namespace, tmp_path: Path
) -> None:
    theirs = "table inet theirs {\n}\n"
    namespace.run(f"{NFT} -f -", text=theirs)
    installed(machine.install("--network", "web", GPUNEX_TOKEN=TOKEN))
    _command_says(engine, "bridge")
    assert "jump web" in namespace.run(f"{NFT} --stateless list table inet gpunex")
    installed(machine.install("--network", "none"))
    _command_says(engine, "none")
    assert namespace.run(f"{NFT} list ruleset") == theirs
    assert (tmp_path / "systemctl").read_text().splitlines()[-2:] == [
        "disable --now gpunex-egress.service",
        "daemon-reload",
    ]


def _command_says(engine: DockerEngine, network: str) -> None:
    for name in ("gpunex-agent", "gpunex-guard"):
        command = life(engine, name)["Config"]["Cmd"]
        assert command[command.index("--job-network") + 1] == network


def _is_confined(engine: DockerEngine) -> None:
    """What the promises of the manual page rest on, as the engine sees it."""
    agent, guard = life(engine), life(engine, "gpunex-guard")
    for container in (agent, guard):
        config = container["HostConfig"]
        assert config["RestartPolicy"]["Name"] == "always"
        assert config["ReadonlyRootfs"] and config["CapDrop"] == ["ALL"] and not config["Privileged"]
        assert not config["PortBindings"] and not container["NetworkSettings"]["Ports"]
    assert {mount["Type"] for mount in agent["Mounts"]} <= {"volume", "tmpfs"}, "the agent sees no file of the machine"
    assert guard["HostConfig"]["NetworkMode"] == "none"
    (request,) = agent["HostConfig"]["DeviceRequests"]
    assert request["DeviceIDs"] == [CARD_A]


def _token_is_nowhere(engine: DockerEngine, machine: Machine, folder: Path) -> None:
    secret = TOKEN.encode()
    assert secret not in (folder / "seen").read_bytes(), "in an argument or an environment of docker"
    assert secret not in b"".join(file.read_bytes() for file in machine.etc.rglob("*"))
    for name in names(engine):
        assert TOKEN not in str(life(engine, name))
    found = subprocess.run(["grep", "-rlF", TOKEN, engine.folder / "data"], capture_output=True, text=True, check=False)
    assert found.stdout == "", "in the engine's data: volumes, layers, logs"


def _job_leave(engine: DockerEngine, image: str) -> str:
    """A container that looks like a job of this machine to whoever cleans up."""
    client = engine.client()
    mark = {"gpunex.machine_id": "of-a-lost-state"}
    client.volumes.create("gpunex-job-1-1", labels=mark)
    container = client.containers.run(
        image,
        entrypoint=["/bin/sleep", "600"],
        detach=True,
        name="gpunex-job-1-1",
        network_mode="none",
        labels=mark,
        volumes={"gpunex-job-1-1": {"bind": "/workspace"}},
    )
    client.close()
    return str(container.name)


def test_a_dry_run_leaves_no_trace(
    machine: Machine, engine: DockerEngine, namespace: Namespace, platform: FakePlatform
) -> None:
    client = engine.client()

    def everything() -> tuple[object, ...]:
        images = {image.id for image in client.images.list()}
        return images, client.containers.list(all=True, ignore_removed=True), client.volumes.list()

    before = everything()
    done = machine.install("--dry-run", GPUNEX_TOKEN=TOKEN)
    assert done.returncode == 0, done.stderr
    assert "would run: docker run --detach --name gpunex-agent" in done.stdout
    assert everything() == before
    client.close()
    assert namespace.run(f"{NFT} list ruleset") == ""
    assert not machine.etc.exists() and platform.enrolments == []


def test_a_terminal_is_asked_for_cards_and_token(
    machine: Machine, engine: DockerEngine, platform: FakePlatform, tmp_path: Path
) -> None:
    answers = [("Which GPUs", f"{CARD_B}"), ("Enrolment token", TOKEN)]
    code, terminal, output = machine.install_on_a_terminal(answers=answers)
    assert code == 0, terminal + output
    assert CARD_A in terminal and CARD_B in terminal
    assert life(engine)["HostConfig"]["DeviceRequests"][0]["DeviceIDs"] == [CARD_B]
    _token_is_nowhere(engine, machine, tmp_path)
    code, terminal, output = machine.install_on_a_terminal("--uninstall", answers=[("forget this machine", "n")])
    assert code == 1 and "nothing was changed" in output
    assert names(engine) == {"gpunex-agent", "gpunex-guard"}


def test_a_refused_token_takes_the_agent_down_and_the_next_one_is_asked_for(
    machine: Machine, engine: DockerEngine, platform: FakePlatform
) -> None:
    done = machine.install(GPUNEX_TOKEN="gpxe_expired")
    assert done.returncode == 1
    assert "token_invalid" in done.stderr and "does not stay up" in done.stderr
    assert names(engine) == set()
    done = machine.install()
    assert done.returncode == 1 and "set GPUNEX_TOKEN" in done.stderr
    installed(machine.install(GPUNEX_TOKEN=TOKEN))


def test_a_platform_that_does_not_answer_is_told(
    machine: Machine, engine: DockerEngine, platform: FakePlatform
) -> None:
    platform.fault("/sync", count=10_000, status=503)
    done = machine.install(GPUNEX_TOKEN=TOKEN, GPUNEX_ONLINE_SECONDS="3")
    assert done.returncode == 1
    assert "has not answered within 3 s" in done.stderr
    assert life(engine)["State"]["Running"], "it goes on trying"
    platform.faults.clear()
    eventually(lambda: platform.machines, "the machine is enrolled", timeout_s=60)
    installed(machine.install())


def test_cards_that_a_container_cannot_use_are_told(
    machine: Machine, engine: DockerEngine, platform: FakePlatform
) -> None:
    machine.tool("nvidia-smi", 'case "$*" in *driver*) echo 550.54.15 ;; *) echo "GPU-broken, NVIDIA L4" ;; esac')
    done = machine.install("--gpus", "GPU-broken", GPUNEX_TOKEN=TOKEN)
    assert done.returncode == 1
    assert "FAILED  gpu_in_container\n  found:  no (" in done.stderr and "nvidia-ctk runtime configure" in done.stderr
    assert names(engine) == set() and platform.enrolments == [] and not machine.etc.exists()

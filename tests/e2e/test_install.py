"""A newcomer's first hour: applies, is approved, runs the one command, sees the machine, pulls the plug, plugs it in again."""

from __future__ import annotations

import io
import os
import re
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from gpunex.embedded import free_port
from reliability.states import OFFLINE_SECONDS
from tests.agent import agent_image, nvml
from tests.agent.docker_engine import DockerEngine
from tests.agent.door import Door
from tests.agent.installer import Machine
from tests.agent.network import Namespace
from tests.agent.registry import FakeRegistry
from tests.agent.waiting import eventually
from tests.e2e.running import Started, data_folder
from tour.guide import Guide
from tour.steps import apply, approve, sign_up

pytestmark = [pytest.mark.engine, pytest.mark.netfilter, pytest.mark.deep, pytest.mark.xdist_group("running")]

SECOND_L4 = "GPU-11111111-0000-0000-0000-000000000007"
CARDS = (nvml.L4_UUID, SECOND_L4)
NVIDIA_SMI = f"""case "$*" in
*driver_version*) echo 550.54.14 ;;
*uuid*) {"; ".join(f'echo "{card}, NVIDIA L4"' for card in CARDS)} ;;
esac"""
WORDS = {"online": "Online since", "offline": "Offline since"}
SWEEP_SECONDS = 30
"""Beside the 90 s: the pace of heartbeats and sweeps, and of a busy machine."""


def agent_layer() -> bytes:
    """The agent's image with a stand-in for the NVIDIA driver, as the toolkit would mount it: two L4."""
    layer = io.BytesIO(agent_image.layer())
    second = nvml.L4.replace(nvml.L4_UUID, SECOND_L4).replace("00000000:01", "00000000:02")
    files = {
        "opt/nvml/libnvidia-ml.so.1": (nvml.library_folder() / "libnvidia-ml.so.1").read_bytes(),
        "opt/nvml/state": (nvml.HEAD + nvml.L4 + second).encode(),
    }
    with tarfile.open(fileobj=layer, mode="a") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            archive.addfile(entry, io.BytesIO(content))
    return layer.getvalue()


@pytest.fixture
def engine() -> Iterator[DockerEngine]:
    found = DockerEngine()
    try:
        yield found.start()
    finally:
        found.close()


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    found = FakeRegistry()
    yield found
    found.close()


def test_a_newcomer_connects_a_machine_and_the_plug_is_pulled(
    engine: DockerEngine, registry: FakeRegistry, tmp_path: Path
) -> None:
    config = agent_image.config("agent")
    config["Env"] += ["LD_LIBRARY_PATH=/opt/nvml", "FAKE_NVML_STATE=/opt/nvml/state"]  # type: ignore[operator]
    agent = f"{registry.name}/agent@{registry.put(agent_layer(), config)}"
    guard = f"{registry.name}/guard@{registry.put(agent_image.layer(), agent_image.config('agent.guard'))}"
    namespace = Namespace()
    with data_folder() as folder:
        started = Started(folder, free_port())
        try:
            started.wait_until_ready()
            guide = Guide.of(None, folder)
            sign_up(guide)
            apply(guide)
            approve(guide)
            machine = _machine(tmp_path, guide.url, engine, namespace, agent, guard)
            _walk(guide, machine, engine)
        except AssertionError as error:
            error.add_note(started.journals())
            raise
        finally:
            started.stop()
            namespace.close()


def _machine(folder: Path, url: str, engine: DockerEngine, namespace: Namespace, agent: str, guard: str) -> Machine:
    made = Machine(
        folder,
        url=url,
        namespace=namespace,
        DOCKER_HOST=engine.address,
        GPUNEX_AGENT_IMAGE=agent,
        GPUNEX_GUARD_IMAGE=guard,
        GPUNEX_MINIMUM_ENGINE="20.10",
        GPUNEX_SYSTEMD=str(folder),
    )
    made.tool("nvidia-smi", NVIDIA_SMI)
    made.tool("systemctl", ":")
    made.tool("df", "echo Filesystem; echo '/dev/vda 1000000000 1 900000000 1% /'")
    made.tool("docker", f'PATH={os.environ["PATH"]} exec docker "$@"')
    return made


def _walk(guide: Guide, machine: Machine, engine: DockerEngine) -> None:
    address = guide.logins["newcomer"]["email"]
    (token,) = {found for mail in guide.outbox.to(address) for found in re.findall(r"gpxe_[\w-]+", mail.body)}
    script = httpx.get(f"{guide.url}/agent", trust_env=False).raise_for_status().text
    where = urlsplit(guide.url)
    assert where.hostname and where.port
    client = engine.client()
    with Door(engine, (where.hostname, where.port)):
        done = machine.install("--gpus", "all", "--name", "attic", script=script, GPUNEX_TOKEN=token)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "Online." in done.stdout
        found = _wait_for(guide, "online")
        assert [card["uuid"] for card in found["gpus"]] == sorted(CARDS), found

        assert "2" in _page(guide, found) and "L4" in _page(guide, found)
        for name in ("gpunex-agent", "gpunex-guard"):  # no power: nobody says goodbye
            client.containers.get(name).pause()
        pulled = time.monotonic()
        _wait_for(guide, "offline", seconds=OFFLINE_SECONDS + SWEEP_SECONDS)
        print(f"offline {time.monotonic() - pulled:.0f} s after the plug was pulled")
        for name in ("gpunex-guard", "gpunex-agent"):
            client.containers.get(name).unpause()
        plugged = time.monotonic()
        _wait_for(guide, "online", seconds=OFFLINE_SECONDS + SWEEP_SECONDS)
        print(f"online again {time.monotonic() - plugged:.0f} s after it was plugged in, by itself")
        client.containers.get("gpunex-agent").restart()
        found = _wait_for(guide, "online")
        assert machine.install("--uninstall", "--yes").returncode == 0
    client.close()


def _wait_for(guide: Guide, state: str, seconds: float = 300) -> dict[str, Any]:
    """The newcomer's one machine, once its own page says so."""
    visitor = guide.visitors["newcomer"]

    def look() -> dict[str, Any] | None:
        rows = visitor.api("provider/machines")["machines"]
        machine = next((dict(row) for row in rows if row["name"] == "attic"), None)
        return machine if machine is not None and WORDS[state] in _page(guide, machine) else None

    return eventually(look, f"the machine is {state}", seconds, every_s=0.5)


def _page(guide: Guide, machine: dict[str, Any]) -> str:
    return " ".join(guide.visitors["newcomer"].get(f"/provider/machines/{machine['id']}/").text.split())

"""The images of a provider's host are built by a real Docker Engine, and the agent's runs the agent.

On a base made of this machine's files, so that no image is fetched; the packages are the pinned wheels. The stage that compiles
fio needs Debian's sources and is left out: `fio` is a stand-in. The figures are what docs/guard.md says.
"""

import io
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from agent_protocol.version import AGENT_VERSION
from tests.agent.agent_image import base_layer
from tests.agent.docker_engine import DockerEngine
from tests.agent.host import ROOT
from tests.agent.platform import TOKEN, FakePlatform
from tests.agent.waiting import eventually

pytestmark = [pytest.mark.engine, pytest.mark.deep]
BASE = "python-of-this-machine:latest"
MB = 10**6


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    engine = DockerEngine().start()
    made = docker.DockerClient(base_url=engine.address, timeout=900, version="auto")
    yield made
    made.close()
    engine.close()


@pytest.fixture(scope="module")
def base(client: docker.DockerClient, tmp_path_factory: pytest.TempPathFactory) -> Any:
    wheels = tmp_path_factory.mktemp("wheels")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-cache-dir",
        "--require-hashes",
        "--dest",
        str(wheels),
    ]
    done = subprocess.run(
        [*pip, "-r", str(ROOT / "agent" / "requirements.txt")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    changes = [
        "ENV PATH=/usr/local/bin:/usr/sbin:/usr/bin:/bin",
        "ENV PYTHONPATH=/opt/pip PIP_NO_INDEX=1 PIP_FIND_LINKS=/opt/wheels PIP_DISABLE_PIP_VERSION_CHECK=1",
    ]
    name, tag = BASE.split(":")
    client.api.import_image_from_data(base_layer(wheels), repository=name, tag=tag, changes=changes)
    return client.images.get(BASE)


def recipe() -> str:
    """agent/Dockerfile without what compiles fio."""
    text = (ROOT / "agent" / "Dockerfile").read_text()
    without, found = re.subn(r"(?<=^FROM \$\{BASE\} AS fio\n).*?(?=^FROM )", "", text, flags=re.M | re.S)
    assert found == 1
    return without


def built(client: docker.DockerClient, target: str) -> Any:
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        content = recipe().encode()
        entry = tarfile.TarInfo("agent/Dockerfile")
        entry.size = len(content)
        for name in ("agent", "agent_protocol"):
            archive.add(ROOT / name, name, filter=lambda each: None if "__pycache__" in each.name else each)
        archive.addfile(entry, io.BytesIO(content))
    context.seek(0)
    image, _said = client.images.build(
        fileobj=context,
        custom_context=True,
        dockerfile="agent/Dockerfile",
        target=target,
        buildargs={"BASE": BASE},
        network_mode="none",
        tag=f"gpunex-{target}:built",
    )
    return image


def added(image: Any, base: Any) -> float:
    """MB beyond the base."""
    return float(image.attrs["Size"] - base.attrs["Size"]) / MB


def stated(pattern: str) -> float:
    """MB that docs/guard.md says in these words."""
    found = re.search(pattern, (ROOT / "docs" / "guard.md").read_text())
    assert found is not None, pattern
    return float(found[1])


def test_the_guards_image_is_built_is_small_and_runs(client: docker.DockerClient, base: Any) -> None:
    image = built(client, "guard")
    assert image.attrs["Config"]["User"] == "0:64000"
    assert added(image, base) == pytest.approx(stated(r"the guard's takes ([0-9.]+) MB"), abs=0.3)
    said = client.containers.run(
        image.id, ["--help"], network_mode="none", read_only=True, cap_drop=["ALL"], remove=True
    )
    assert b"--job-network" in said


def test_the_agents_image_is_built_is_small_and_runs_the_agent(
    client: docker.DockerClient, base: Any, platform: FakePlatform, tmp_path: Path
) -> None:
    image = built(client, "agent")
    assert image.attrs["Config"]["User"] == "64000:64000"
    assert added(image, base) == pytest.approx(stated(r"([0-9.]+) of packages and code"), abs=1.5)
    confined = {"read_only": True, "cap_drop": ["ALL"], "security_opt": ["no-new-privileges:true"]}
    said = client.containers.run(image.id, network_mode="none", remove=True, **confined)
    assert AGENT_VERSION.encode() in said
    profile = '{"gpus": [{"uuid": "GPU-aaaaaaaa-0000-0000-0000-000000000001", "name": "NVIDIA L4"}]}'
    (tmp_path / "profile.json").write_text(profile)
    run = ["run", "--url", platform.url, "--state", "/var/lib/gpunex-agent", "--runtime", "process"]
    container = client.containers.run(
        image.id,
        [*run, "--probe", "simulated", "--simulated-profile", "/profile.json"],
        environment={"GPUNEX_TOKEN": TOKEN},
        network_mode="host",
        volumes={
            "agent-state": {"bind": "/var/lib/gpunex-agent", "mode": "rw"},
            str(tmp_path / "profile.json"): {"bind": "/profile.json", "mode": "ro"},
        },
        detach=True,
        **confined,
    )
    try:
        eventually(lambda: platform.syncs, f"it syncs ({container.logs()!r})", 300)
        assert platform.last_sync().agent_version == AGENT_VERSION
        container.stop(timeout=60)
        assert container.wait(timeout=60)["StatusCode"] == 0, container.logs().decode()
    finally:
        container.remove(force=True, v=True)

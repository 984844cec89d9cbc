"""Memory of a GPU that is still in use after a job, with a real Docker Engine and the compiled fake NVML."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_protocol.messages import GpuTelemetry
from tests.agent import nvml
from tests.agent.docker_engine import DockerEngine, container_of
from tests.agent.docker_jobs import job, on_docker
from tests.agent.host import AgentHost, ended, running
from tests.agent.platform import FakePlatform
from tests.agent.registry import FakeRegistry
from tests.agent.waiting import eventually

pytestmark = [pytest.mark.engine, pytest.mark.compiler]
HELD = nvml.L4.replace("used 1048576", f"used {10 * 2**30}")
LITTLE = nvml.L4.replace("used 1048576", f"used {500 * 2**20}")


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    made = FakeRegistry()
    yield made
    made.close()


@pytest.fixture
def engine(registry: FakeRegistry) -> Iterator[DockerEngine]:
    made = DockerEngine(registries=(registry.name,))
    made.start()
    yield made
    made.close()


@pytest.fixture
def state(tmp_path: Path) -> Path:
    path = tmp_path / "nvml"
    nvml.write(path, nvml.HEAD, nvml.L4, nvml.A100)
    return path


def test_a_gpu_is_neither_offered_nor_used_until_its_memory_is_free(
    platform: FakePlatform, host: AgentHost, engine: DockerEngine, registry: FakeRegistry, state: Path
) -> None:
    on_docker(host, engine, registry)
    host.options |= {"--probe": "nvml"}
    del host.options["--simulated-profile"]
    host.environment |= nvml.environment(state)

    def put(uuid: str, script: str) -> dict[str, Any]:
        body = job(registry, script, gpu_uuids=[uuid])
        platform.plan_put("attempt", body)
        return body

    def told() -> dict[str, GpuTelemetry]:
        return {each.uuid: each for each in platform.last_sync().telemetry}

    first = put(nvml.L4_UUID, "sleep 600")
    host.start()
    running(platform, first)
    # Its own memory, while it runs, is nothing to speak of.
    nvml.write(state, nvml.HEAD, HELD, nvml.A100)
    eventually(lambda: told()[nvml.L4_UUID].memory_used_bytes == 10 * 2**30, "a look", 120)
    assert told()[nvml.L4_UUID].held_after_job is None
    platform.attempt_stop(first["attempt_id"], "cancelled")
    assert ended(platform, first, timeout_s=120)["reason"] == "cancelled"
    eventually(lambda: told()[nvml.L4_UUID].held_after_job, "the platform hears of it at once", 120)
    assert told()[nvml.A100_UUID].held_after_job is None

    second, neighbour = put(nvml.L4_UUID, "echo mine"), put(nvml.A100_UUID, "echo beside")
    assert ended(platform, neighbour, timeout_s=120)["reason"] == "completed"
    eventually(lambda: "memory of its GPU is still in use" in host.journal(), "the next one waits", 120)
    assert platform.state(second["attempt_id"]) == "pulling"
    assert container_of(engine, second) is None

    nvml.write(state, nvml.HEAD, LITTLE, nvml.A100)
    assert ended(platform, second, timeout_s=120)["reason"] == "completed"
    assert platform.log(second["attempt_id"]) == b"mine\n"
    eventually(lambda: told()[nvml.L4_UUID].held_after_job is None, "it may be offered again", 120)

"""An agent, or its runtime alone, on a test's Docker Engine, and jobs for it."""

from pathlib import Path
from typing import Any

from agent.config import Settings
from tests.agent.docker_engine import DockerEngine
from tests.agent.host import AgentHost, attempt_body
from tests.agent.registry import FakeRegistry


def on_docker(host: AgentHost, engine: DockerEngine, registry: FakeRegistry) -> AgentHost:
    host.options |= {
        "--runtime": "docker",
        "--docker-host": engine.guard_address,
        "--allow-registry": registry.name,
    }
    return host


def job(registry: FakeRegistry, script: str, **changes: Any) -> dict[str, Any]:
    return attempt_body(script, **{"image": f"{registry.name}/busybox:1", "gpu_uuids": [], **changes})


def settings(engine: DockerEngine, registry: FakeRegistry, state: Path) -> Settings:
    return Settings(
        url="https://gpunex.example",
        state=state,
        runtime="docker",
        probe="nvml",
        docker_host=engine.guard_address,
        registries=frozenset({registry.name}),
    )

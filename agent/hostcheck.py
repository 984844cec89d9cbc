"""`agent check`: the facts of this host against the shared rule table."""

import importlib
import platform
from typing import Any

from agent.config import Settings
from agent.errors import AgentError
from agent.host import is_wsl, toolkit_version
from agent.registry import probe_make
from agent_protocol.checks import CheckResult, HostFacts, evaluate


def host_check(settings: Settings) -> tuple[CheckResult, ...]:
    """Look, then judge. What cannot be found out from here is `unknown`."""
    return evaluate(_facts(settings))


def _facts(settings: Settings) -> HostFacts:
    engine, running, version = _engine(settings.docker_host)
    return HostFacts(
        system=platform.system() or None,
        architecture=platform.machine() or None,
        is_wsl=is_wsl(),
        engine=engine,
        engine_running=running,
        engine_version=version,
        driver_version=_driver_version(settings),
        toolkit_version=toolkit_version(),
        # Needs an image and a GPU; the installer tries it with the benchmark image.
        gpu_in_container=None,
    )


def _engine(docker_host: str | None) -> tuple[str | None, bool | None, str | None]:
    """Name, whether it answers, version."""
    docker: Any = importlib.import_module("docker")
    try:
        client = docker.DockerClient(base_url=docker_host or "unix:///var/run/docker.sock", timeout=10, version="auto")
        try:
            version = client.version()
        finally:
            client.close()
    except (docker.errors.DockerException, OSError):
        return None, False, None
    podman = any("podman" in str(part.get("Name", "")).lower() for part in version.get("Components") or ())
    return ("podman" if podman else "docker"), True, version.get("Version")


def _driver_version(settings: Settings) -> str | None:
    try:
        probe, _ = probe_make(settings)
    except AgentError:
        return None
    try:
        return probe.read().driver_version
    finally:
        probe.close()

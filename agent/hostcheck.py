"""`agent check`: the facts of this host against the shared rule table."""

import importlib
import platform
import shutil
from typing import Any

from agent.config import GUARD_ADDRESS, Settings
from agent.errors import AgentError
from agent.host import is_wsl, toolkit_version
from agent.registry import probe_make
from agent_protocol.checks import CheckResult, HostFacts, evaluate


def host_check(settings: Settings) -> tuple[CheckResult, ...]:
    """Look, then judge. What cannot be found out from here is `unknown`."""
    return evaluate(_facts(settings))


def _facts(settings: Settings) -> HostFacts:
    engine, running, version = _engine(settings.docker_host)
    driver_version, gpu_count = _gpus(settings)
    return HostFacts(
        system=platform.system() or None,
        architecture=platform.machine() or None,
        is_wsl=is_wsl(),
        # The installer's business: it runs on the host, this in a container there.
        privileged=None,
        packet_filter=None,
        engine=engine,
        engine_running=running,
        engine_version=version,
        disk_free_gb=_disk_free_gb(settings),
        driver_version=driver_version,
        gpu_count=gpu_count,
        toolkit_version=toolkit_version(),
        # Needs an image and a GPU; the installer tries it with the benchmark image.
        gpu_in_container=None,
    )


def _engine(docker_host: str | None) -> tuple[str | None, bool | None, str | None]:
    """Name, whether it answers, version."""
    docker: Any = importlib.import_module("docker")
    try:
        client = docker.DockerClient(base_url=docker_host or GUARD_ADDRESS, timeout=10, version="auto")
        try:
            version, info = client.version(), client.info()
        finally:
            client.close()
    except (docker.errors.DockerException, OSError):
        return None, False, None
    return engine_name(version, info), True, version.get("Version")


def engine_name(version: dict[str, Any], info: dict[str, Any]) -> str:
    """What kind of engine answers `GET /version` and `GET /info` so."""
    if any("podman" in str(part.get("Name", "")).lower() for part in version.get("Components") or ()):
        return "podman"
    if "name=rootless" in (info.get("SecurityOptions") or ()):
        return "docker-rootless"
    return "docker-desktop" if info.get("OperatingSystem") == "Docker Desktop" else "docker"


def _disk_free_gb(settings: Settings) -> int | None:
    """Free where the state folder lies: in the agent's container that is a volume, beside the engine's images."""
    for folder in (settings.state, *settings.state.parents):
        if folder.exists():
            return shutil.disk_usage(folder).free // 10**9
    return None


def _gpus(settings: Settings) -> tuple[str | None, int | None]:
    """Driver version and how many GPUs it sees; both null where the driver does not answer."""
    try:
        probe = probe_make(settings)
    except AgentError:
        return None, None
    try:
        reading = probe.read()
    finally:
        probe.close()
    return reading.driver_version, None if reading.degraded else len(reading.gpus)

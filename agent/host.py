"""Facts about the host around the GPUs. What cannot be read is null."""

import os
import platform
import shutil
import socket
import subprocess
from pathlib import Path

from agent.config import Settings
from agent.runtime.base import EngineFacts
from agent_protocol.messages import Host

_TOOLKIT_DEADLINE_S = 5


def host_read(settings: Settings, engine: EngineFacts, driver_version: str | None, cuda_version: str | None) -> Host:
    """Ourselves as the platform shows us; the engine knows the host better than a container can."""
    total, free = _disk(settings.state)
    return Host(
        architecture=platform.machine() or "unknown",
        hostname=_short(settings.name or socket.gethostname()),
        os=_short(engine.operating_system or _os_name()),
        kernel=_short(engine.kernel or platform.release()),
        cpu_model=_short(_cpu_model()),
        cpu_count=os.cpu_count(),
        ram_bytes=_ram_bytes(),
        disk_total_bytes=total,
        disk_free_bytes=free,
        engine=engine.engine,
        engine_version=engine.engine_version,
        toolkit_version=toolkit_version(),
        driver_version=driver_version,
        cuda_version=cuda_version,
    )


def toolkit_version() -> str | None:
    """Version of the NVIDIA Container Toolkit where its command is visible from here."""
    command = shutil.which("nvidia-ctk")
    if command is None:
        return None
    try:
        answer = subprocess.run(
            [command, "--version"], capture_output=True, text=True, timeout=_TOOLKIT_DEADLINE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    words = answer.stdout.split("\n", 1)[0].split()
    return words[-1][:64] if words and words[-1][:1].isdigit() else None


def is_wsl() -> bool | None:
    try:
        return "microsoft" in Path("/proc/version").read_text().lower()
    except OSError:
        return None


def _short(text: str | None) -> str | None:
    cleaned = "".join(character for character in text or "" if character.isprintable())
    return cleaned[:128] or None


def _os_name() -> str | None:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        return None


def _cpu_model() -> str | None:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    except OSError:
        return None
    return None


def _ram_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") or None
    except (OSError, ValueError):
        return None


def _disk(path: Path) -> tuple[int | None, int | None]:
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return None, None
    return usage.total, usage.free

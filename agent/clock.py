"""Time as the agent needs it: durations from the boot clock, instants only to inform."""

import time
from datetime import UTC, datetime
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_seconds() -> float:
    """Seconds since the host booted, sleep included. Steady across agent restarts; comparable within one boot id."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """The kernel's random id of this boot."""
    return _BOOT_ID.read_text().strip()


def wall_iso() -> str:
    """The host's idea of now, in UTC. Informative: the platform stamps everything itself."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")

"""No job starts on a card whose memory an earlier one, or anybody else, still holds."""

import logging
from collections.abc import Callable
from typing import Any

from agent.clock import boot_seconds
from agent.runtime.base import RuntimeRefused
from agent.watch import HostWatch

# A driver gives memory back within seconds of a process's end. What stays for minutes stays until somebody looks after it.
MEMORY_PATIENCE_S = 120.0
MEMORY_LOOK_S = 2.0

log = logging.getLogger("agent.memory")


def memory_await(
    watch: HostWatch,
    uuids: tuple[str, ...],
    cancelled: Callable[[], bool],
    wait: Callable[[float], None],
    tag: dict[str, Any],
) -> None:
    """Until nobody's memory is on these GPUs any more; raises RuntimeRefused when that takes too long."""
    until = boot_seconds() + MEMORY_PATIENCE_S
    while uuids and not watch.memory_known_free(uuids) and not cancelled():
        watch.look()
        held = watch.memory_held(uuids)
        if not held:
            return
        log.warning("memory of its GPU is still in use", extra={**tag, "gpus": held})
        if boot_seconds() >= until:
            raise RuntimeRefused("device_injection_failed", "memory_held")
        wait(MEMORY_LOOK_S)

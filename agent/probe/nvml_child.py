"""The process that speaks to NVML, because NVML may hang for minutes and cannot be interrupted from inside.

Reads one line per look from stdin and answers with one JSON line on stdout. Dies with its parent.

    {"error": code} | {"driver_version", "cuda_version", "gpus": [{…Gpu fields, "telemetry": {…}}], "xids": [[uuid, n]]}
"""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import pynvml as nvml

from agent_protocol.reasons import THROTTLE_BITS

_CODES = {
    nvml.NVML_ERROR_NOT_SUPPORTED: "not_supported",
    nvml.NVML_ERROR_NO_PERMISSION: "no_permission",
    nvml.NVML_ERROR_FUNCTION_NOT_FOUND: "function_not_found",
    nvml.NVML_ERROR_GPU_IS_LOST: "gpu_lost",
    nvml.NVML_ERROR_TIMEOUT: "timeout",
}
_INIT_CODES = {
    nvml.NVML_ERROR_LIBRARY_NOT_FOUND: "nvml_missing",
    nvml.NVML_ERROR_DRIVER_NOT_LOADED: "nvml_missing",
    nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "nvml_mismatch",
}
# NVML says "not available" for a number by the largest value its type can hold.
_NOT_AVAILABLE = frozenset({0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF})


class Card:
    """One GPU being read: collects values, and for each missing one why."""

    def __init__(self, handle: Any, uuid: str) -> None:
        self.handle = handle
        self.uuid = uuid
        self.reasons: dict[str, str] = {}
        self.lost = False

    def value(self, name: str, read: Callable[[Any], Any]) -> Any:
        """The value, or null with a reason under `name`."""
        if self.lost:
            self.reasons[name] = "gpu_lost"
            return None
        try:
            found = read(self.handle)
        except nvml.NVMLError as error:
            self.reasons[name] = _CODES.get(error.value, "error")
            self.lost = self.lost or error.value == nvml.NVML_ERROR_GPU_IS_LOST
            return None
        if isinstance(found, bytes):
            found = found.decode("utf-8", "replace")
        if found is None or found in _NOT_AVAILABLE:
            self.reasons[name] = "not_supported"
            return None
        return found


class Reader:
    """NVML, initialised when it can be; `look` starts it anew after a failure."""

    def __init__(self) -> None:
        self._ready = False
        self._events: Any = None
        self._watched: set[str] = set()

    def look(self) -> dict[str, Any]:
        try:
            if not self._ready:
                nvml.nvmlInit()
                self._ready = True
            return self._read()
        except nvml.NVMLError as error:
            self._stop()
            return {"error": _INIT_CODES.get(error.value, "nvml_failed")}

    def _stop(self) -> None:
        """A driver that was reloaded needs a new start; what we watched went with the old one."""
        self._events, self._watched = None, set()
        if self._ready:
            self._ready = False
            try:
                nvml.nvmlShutdown()
            except nvml.NVMLError:
                return

    def _read(self) -> dict[str, Any]:
        gpus = []
        for index in range(nvml.nvmlDeviceGetCount()):
            gpu = self._read_one(index)
            if gpu is not None:
                gpus.append(gpu)
        return {
            "driver_version": _system(nvml.nvmlSystemGetDriverVersion),
            "cuda_version": _cuda_version(),
            "gpus": gpus,
            "xids": self._xids(),
        }

    def _read_one(self, index: int) -> dict[str, Any] | None:
        """A card without a UUID cannot be spoken of and is left out; the parent remembers which it knew."""
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = nvml.nvmlDeviceGetUUID(handle)
        except nvml.NVMLError:
            return None
        card = Card(handle, uuid.decode() if isinstance(uuid, bytes) else uuid)
        self._watch(card)
        described = _described(card)
        described["telemetry"] = _telemetry(card)
        described["health"] = "lost" if card.lost else "ok"
        return described

    def _watch(self, card: Card) -> None:
        """Ask for the card's Xid events once; cards that cannot tell are simply not watched."""
        if card.uuid in self._watched:
            return
        self._watched.add(card.uuid)
        try:
            if self._events is None:
                self._events = nvml.nvmlEventSetCreate()
            nvml.nvmlDeviceRegisterEvents(card.handle, nvml.nvmlEventTypeXidCriticalError, self._events)
        except nvml.NVMLError:
            return

    def _xids(self) -> list[tuple[str, int]]:
        """Events that are waiting; none is waited for."""
        found: list[tuple[str, int]] = []
        while self._events is not None and len(found) < 64:
            try:
                event = nvml.nvmlEventSetWait_v2(self._events, 0)
                found.append((nvml.nvmlDeviceGetUUID(event.device), int(event.eventData)))
            except nvml.NVMLError:
                break
        return found


def _described(card: Card) -> dict[str, Any]:
    milliwatts = card.value("power_limit_w", nvml.nvmlDeviceGetEnforcedPowerLimit)
    return {
        "uuid": card.uuid,
        "name": card.value("name", nvml.nvmlDeviceGetName),
        "memory_bytes": card.value("memory_bytes", lambda handle: nvml.nvmlDeviceGetMemoryInfo(handle).total),
        "pci_bus_id": card.value("pci_bus_id", lambda handle: nvml.nvmlDeviceGetPciInfo(handle).busId),
        "pcie_generation": card.value("pcie_generation", nvml.nvmlDeviceGetMaxPcieLinkGeneration),
        "pcie_width": card.value("pcie_width", nvml.nvmlDeviceGetMaxPcieLinkWidth),
        "power_limit_w": None if milliwatts is None else milliwatts / 1000,
        "ecc_enabled": _flag(card.value("ecc_enabled", lambda handle: nvml.nvmlDeviceGetEccMode(handle)[0])),
        "mig_enabled": _flag(card.value("mig_enabled", lambda handle: nvml.nvmlDeviceGetMigMode(handle)[0])),
        "vbios": card.value("vbios", nvml.nvmlDeviceGetVbiosVersion),
        "reasons": card.reasons,
    }


def _telemetry(card: Card) -> dict[str, Any]:
    """Readings of the moment; why one is missing is not worth telling every fifteen seconds."""
    quiet = Card(card.handle, card.uuid)
    quiet.lost = card.lost
    milliwatts = quiet.value("power", nvml.nvmlDeviceGetPowerUsage)
    readings = {
        "uuid": card.uuid,
        "utilization_percent": quiet.value("load", lambda handle: nvml.nvmlDeviceGetUtilizationRates(handle).gpu),
        "memory_used_bytes": quiet.value("memory", lambda handle: nvml.nvmlDeviceGetMemoryInfo(handle).used),
        "temperature_c": quiet.value(
            "temperature", lambda handle: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)
        ),
        "power_w": None if milliwatts is None else milliwatts / 1000,
        "sm_clock_mhz": quiet.value("sm_clock", lambda handle: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
        "memory_clock_mhz": quiet.value(
            "memory_clock", lambda handle: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)
        ),
        "foreign_processes": quiet.value(
            "processes", lambda handle: len(nvml.nvmlDeviceGetComputeRunningProcesses(handle))
        ),
        "throttle_reasons": _throttle_reasons(quiet.value("throttle", nvml.nvmlDeviceGetCurrentClocksEventReasons)),
    }
    card.lost = quiet.lost
    return readings


def _throttle_reasons(mask: int | None) -> list[str] | None:
    """Codes of the bits that are set; a bit that a later driver adds is `other`."""
    if mask is None:
        return None
    known = [code for bit, code in THROTTLE_BITS.items() if mask & bit]
    return [*known, "other"] if mask & ~sum(THROTTLE_BITS) else known


def _flag(value: int | None) -> bool | None:
    return None if value is None else bool(value)


def _system(read: Callable[[], Any]) -> str | None:
    try:
        value = read()
    except nvml.NVMLError:
        return None
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _cuda_version() -> str | None:
    """The newest CUDA version this driver serves: 12040 → 12.4."""
    number = _system(nvml.nvmlSystemGetCudaDriverVersion_v2)
    if number is None or not number.isdigit():
        return None
    return f"{int(number) // 1000}.{int(number) % 1000 // 10}"


def main() -> int:
    reader = Reader()
    parent = os.getppid()
    for _ in sys.stdin:
        sys.stdout.write(json.dumps(reader.look()) + "\n")
        sys.stdout.flush()
        if os.getppid() != parent:
            break
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The circumstances of a measurement, asked of NVML through ctypes: this image has no room for another library.

Whatever NVML does not say is left out; a figure must not fail because a clock could not be read.
"""

import ctypes
import statistics
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

THROTTLE_BITS = {
    0x01: "gpu_idle",
    0x02: "applications_clocks",
    0x04: "sw_power_cap",
    0x08: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "hw_power_brake",
    0x100: "display_clock",
}
_CLOCK_SM = 1
_TEMPERATURE_GPU = 0
_MAX_PROCESSES = 128
_SAMPLE_EVERY_S = 0.2
# Newer drivers have the first name only, older ones the second.
_REASONS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")


class _Process(ctypes.Structure):
    """nvmlProcessInfo_t of the versions 2 and 3."""

    _fields_ = [
        ("pid", ctypes.c_uint),
        ("used_memory", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


class Circumstances:
    """Collects samples of the GPU that this process was given, while it works."""

    def __init__(self, gpu_uuid: str | None) -> None:
        self._library: Any = None
        self._handle = ctypes.c_void_p()
        self._clocks: list[int] = []
        self._temperatures: list[int] = []
        self._bits = 0
        self._processes: list[int] = []
        try:
            library = ctypes.CDLL("libnvidia-ml.so.1")
            if library.nvmlInit_v2() != 0:
                return
            if gpu_uuid is None:
                found = library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self._handle))
            else:
                found = library.nvmlDeviceGetHandleByUUID(gpu_uuid.encode(), ctypes.byref(self._handle))
        except (OSError, AttributeError):
            return
        if found == 0:
            self._library = library

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Sample in the background for as long as this lasts."""
        over = threading.Event()

        def run() -> None:
            while not over.wait(_SAMPLE_EVERY_S):
                self._sample()

        thread = threading.Thread(target=run, name="circumstances", daemon=True)
        if self._library is not None:
            self._sample()
            thread.start()
        try:
            yield
        finally:
            over.set()
            if thread.is_alive():
                thread.join()

    def _sample(self) -> None:
        number = ctypes.c_uint()
        if self._ask("nvmlDeviceGetClockInfo", _CLOCK_SM, ctypes.byref(number)):
            self._clocks.append(number.value)
        if self._ask("nvmlDeviceGetTemperature", _TEMPERATURE_GPU, ctypes.byref(number)):
            self._temperatures.append(number.value)
        bits = ctypes.c_ulonglong()
        if any(self._ask(name, ctypes.byref(bits)) for name in _REASONS):
            self._bits |= bits.value
        count, list_of = ctypes.c_uint(_MAX_PROCESSES), (_Process * _MAX_PROCESSES)()
        if self._ask("nvmlDeviceGetComputeRunningProcesses_v3", ctypes.byref(count), list_of):
            self._processes.append(count.value)

    def _ask(self, name: str, *arguments: Any) -> bool:
        try:
            return getattr(self._library, name)(self._handle, *arguments) == 0
        except AttributeError:
            return False

    def told(self) -> dict[str, Any]:
        """Median clock, highest temperature, every throttle reason seen, most processes beside our own."""
        return {
            "clocks_mhz": round(statistics.median(self._clocks)) if self._clocks else None,
            "temperature_c": max(self._temperatures, default=None),
            "throttle_reasons": [name for bit, name in THROTTLE_BITS.items() if self._bits & bit and bit != 0x01],
            "foreign_processes": max(0, max(self._processes) - 1) if self._processes else None,
        }

"""GPUs that do not exist, for demonstrations: described by a JSON file, plausible to look at, labelled everywhere."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.clock import boot_seconds
from agent.errors import AgentError
from agent.probe.base import ProbeReading
from agent_protocol.errors import ProtocolError
from agent_protocol.fields import json_read
from agent_protocol.messages import BenchmarkMetrics, Gpu, GpuTelemetry

_SETTLE_S = 60.0


@dataclass(frozen=True)
class SimulatedGpu:
    """`peak` are the figures a simulated benchmark of this card is drawn around; empty: by the card's name."""

    gpu: Gpu
    peak: BenchmarkMetrics | None


@dataclass(frozen=True)
class SimulatedProfile:
    """`benchmark_s`: how long a simulated benchmark takes."""

    driver_version: str
    cuda_version: str
    gpus: tuple[SimulatedGpu, ...]
    benchmark_s: float


def profile_read(path: Path) -> SimulatedProfile:
    """The profile in a file: `{"gpus": [{"uuid", "name", "memory_bytes", …, "benchmark": {metrics}}], …}` or only that
    list. Raises AgentError naming the field."""
    try:
        value = json_read(path.read_bytes())
        body: dict[str, Any] = {"gpus": value} if isinstance(value, list) else value
        if not isinstance(body, dict) or not isinstance(body.get("gpus"), list):
            raise ProtocolError("gpus", "something else", "a list of GPUs")
        gpus = tuple(_gpu_read(entry, f"gpus.{number}") for number, entry in enumerate(body["gpus"]))
        duration = body.get("benchmark_s", 5.0)
        if not isinstance(duration, (int, float)) or not 0 <= duration <= 3600:
            raise ProtocolError("benchmark_s", duration, "0 to 3600")
    except ProtocolError as error:
        raise AgentError(f"--simulated-profile: {path}: {error}") from None
    except OSError as error:
        raise AgentError(f"--simulated-profile: cannot read {path}: {error.strerror}") from None
    return SimulatedProfile(
        driver_version=str(body.get("driver_version", "570.124.06")),
        cuda_version=str(body.get("cuda_version", "12.8")),
        gpus=gpus,
        benchmark_s=float(duration),
    )


def _gpu_read(entry: Any, path: str) -> SimulatedGpu:
    if not isinstance(entry, dict):
        raise ProtocolError(path, entry, "an object")
    described = {
        "health": "ok",
        "pcie_generation": 4,
        "pcie_width": 16,
        "mig_enabled": False,
        "reasons": {},
        **entry,
    }
    peak = described.pop("benchmark", None)
    try:
        metrics = None if peak is None else BenchmarkMetrics.parse(peak)
        return SimulatedGpu(Gpu.parse(described), metrics)
    except ProtocolError as error:
        raise error.under(path) from None


class SimulatedProbe:
    """Load, heat and power follow what our jobs use; a little noise keeps the charts alive."""

    simulated = True

    def __init__(self, profile: SimulatedProfile) -> None:
        self._profile = profile
        self._busy: frozenset[str] = frozenset()
        self._busy_since: dict[str, float] = {}
        self._random = random.Random(0)

    def read(self) -> ProbeReading:
        return ProbeReading(
            gpus=tuple(each.gpu for each in self._profile.gpus),
            telemetry=tuple(self._telemetry(each.gpu) for each in self._profile.gpus if each.gpu.health == "ok"),
            driver_version=self._profile.driver_version,
            cuda_version=self._profile.cuda_version,
        )

    def busy(self, uuids: frozenset[str]) -> None:
        now = boot_seconds()
        self._busy_since = {uuid: self._busy_since.get(uuid, now) for uuid in uuids}
        self._busy = uuids

    def close(self) -> None:
        """Nothing is held."""

    def _telemetry(self, gpu: Gpu) -> GpuTelemetry:
        working = gpu.uuid in self._busy
        warm = (
            min(1.0, (boot_seconds() - self._busy_since.get(gpu.uuid, boot_seconds())) / _SETTLE_S) if working else 0.0
        )
        noise = self._random.random()
        limit = gpu.power_limit_w or 300.0
        return GpuTelemetry(
            uuid=gpu.uuid,
            utilization_percent=round(94 + 5 * noise, 1) if working else 0.0,
            memory_used_bytes=int((gpu.memory_bytes or 0) * (0.6 + 0.05 * noise)) if working else 4 * 2**20,
            temperature_c=round(33 + 35 * warm + 2 * noise, 1),
            power_w=round(limit * (0.82 + 0.05 * noise) if working else limit * (0.07 + 0.01 * noise), 1),
            sm_clock_mhz=round(1700 + 60 * noise) if working else 210,
            memory_clock_mhz=6_250 if working else 405,
            foreign_processes=0,
            throttle_reasons=("sw_power_cap",) if working else ("gpu_idle",),
        )

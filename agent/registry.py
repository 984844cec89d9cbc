"""Which module serves which option. The chosen one is imported at start and the others never: an agent must stay small.

Each module below is loaded by its name here and nowhere else; its class takes what the function passes.
"""

import importlib
from typing import Any

from agent.bench.base import BenchmarkRunner
from agent.config import Settings
from agent.probe.base import GpuProbe
from agent.runtime.base import JobRuntime

RUNTIME_MODULES = {
    "process": ("agent.runtime.process", "ProcessRuntime"),
    "docker": ("agent.runtime.docker", "DockerRuntime"),
}
_SIMULATION = "agent.probe.simulated"


def runtime_make(settings: Settings, machine_id: str) -> JobRuntime:
    """Raises AgentError when the runtime cannot work here."""
    runtime: JobRuntime = _load(*RUNTIME_MODULES[settings.runtime])(settings, machine_id)
    return runtime


def probe_make(settings: Settings) -> tuple[GpuProbe, BenchmarkRunner]:
    """The probe, and the benchmark that goes with it: simulated cards get simulated figures, real ones never do."""
    probe: GpuProbe
    benchmark: BenchmarkRunner
    if settings.probe == "simulated":
        profile = _load(_SIMULATION, "profile_read")(settings.simulated_profile)
        probe = _load(_SIMULATION, "SimulatedProbe")(profile)
        benchmark = _load("agent.bench.simulated", "SimulatedBenchmark")(profile)
    else:
        probe = _load("agent.probe.nvml", "NvmlProbe")()
        benchmark = _load("agent.bench.torch", "TorchBenchmark")()
    return probe, benchmark


def _load(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)

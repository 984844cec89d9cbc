"""Which module serves which option. The chosen one is imported at start and the others never: an agent must stay small.

Each module below is loaded by its name here and nowhere else; its class takes what the function passes.
"""

import importlib
from typing import Any

from agent.bench.base import BenchmarkRunner
from agent.client import PlatformClient
from agent.config import Settings
from agent.probe.base import GpuProbe
from agent.runtime.base import JobRuntime

RUNTIME_MODULES = {
    "process": ("agent.runtime.process", "ProcessRuntime"),
    "docker": ("agent.runtime.docker", "DockerRuntime"),
}
_SIMULATION = "agent.probe.simulated"
_LAUNCH = "agent.bench.launch"


def runtime_make(settings: Settings, machine_id: str) -> JobRuntime:
    """Raises AgentError when the runtime cannot work here."""
    runtime: JobRuntime = _load(*RUNTIME_MODULES[settings.runtime])(settings, machine_id)
    return runtime


def probe_make(settings: Settings) -> GpuProbe:
    """Raises AgentError when the profile of a simulation cannot be read."""
    probe: GpuProbe
    if settings.probe == "simulated":
        profile = _load(_SIMULATION, "profile_read")(settings.simulated_profile)
        probe = _load(_SIMULATION, "SimulatedProbe")(profile)
    else:
        probe = _load("agent.probe.nvml", "NvmlProbe")()
    return probe


def benchmark_make(settings: Settings, client: PlatformClient, runtime: JobRuntime, machine_id: str) -> BenchmarkRunner:
    """The benchmark that goes with the probe: simulated cards get simulated figures, real ones never do."""
    benchmark: BenchmarkRunner
    if settings.probe == "simulated":
        profile = _load(_SIMULATION, "profile_read")(settings.simulated_profile)
        benchmark = _load("agent.bench.simulated", "SimulatedBenchmark")(profile, client)
        return benchmark
    if settings.runtime == "docker":
        launcher = _load(_LAUNCH, "ContainerLauncher")(runtime, machine_id)
    else:
        launcher = _load(_LAUNCH, "ChildLauncher")(settings.benchmark_python, settings.benchmark_options)
    host = [
        _load("agent.bench.storage", "StorageMeasure")(settings.state),
        _load("agent.bench.network", "NetworkMeasure")(client),
    ]
    benchmark = _load("agent.bench.suite", "SuiteBenchmark")(launcher, client, host)
    return benchmark


def _load(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)

"""Benchmarks on real cards. The measuring itself belongs to the benchmark image, which this agent does not carry yet:
until it does, a real host says why there are no figures instead of inventing some."""

import importlib.util
import subprocess
import sys
from collections.abc import Callable

from agent.bench.base import BenchmarkRefused, Measurement
from agent_protocol.messages import BenchmarkPlan

_IMPORT_DEADLINE_S = 120
_ASK = "import sys, torch; sys.exit(0 if torch.cuda.is_available() else 10)"
_NO_CUDA = 10


class TorchBenchmark:
    """Finds out what is missing: `not_installed` (no torch), `no_cuda`, `unsupported_suite` (no suite in this agent)."""

    def run(
        self, plan: BenchmarkPlan, progress: Callable[[int], None], cancelled: Callable[[float], bool]
    ) -> Measurement:
        if importlib.util.find_spec("torch") is None:
            raise BenchmarkRefused("not_installed")
        try:
            # In a process of its own: torch takes hundreds of megabytes and can crash with the driver.
            code = subprocess.run([sys.executable, "-c", _ASK], timeout=_IMPORT_DEADLINE_S, check=False).returncode
        except subprocess.TimeoutExpired:
            raise BenchmarkRefused("time_limit") from None
        if code == _NO_CUDA:
            raise BenchmarkRefused("no_cuda")
        raise BenchmarkRefused("unsupported_suite" if code == 0 else "not_installed")

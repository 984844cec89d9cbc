"""Where the suite runs: in containers like those of jobs, or as a child of the agent (`--runtime process`)."""

import logging
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO
from uuid import uuid4

from agent.bench.base import BenchmarkRefused, Cancelled
from agent.runtime.base import EngineUnavailable, JobOrder, JobRuntime, JobState, RuntimeRefused, job_name
from agent_protocol.messages import AttemptPlan, BenchmarkPlan, JobLimits

GIB = 1024**3
LOG_LIMIT_BYTES = 1024 * 1024
"""128 roots and 32 openings with their paths are 40 kB; the rest is room for what libraries print."""
MEMORY_BYTES = 16 * GIB
"""torch with CUDA takes 4 GiB of the machine's memory, a product on its way through it half a GiB more."""
MOST_CPUS = 16
_PACKAGES = Path(__file__).resolve().parents[2]
_READ_BYTES = 256 * 1024
# What the engine's reasons for refusing a job mean for a benchmark.
_REFUSALS = {
    "image_missing": "not_installed",
    "image_unauthorized": "not_installed",
    "registry_unavailable": "not_installed",
    "registry_rate_limited": "not_installed",
    "device_injection_failed": "no_cuda",
}

log = logging.getLogger("agent.bench")


class ContainerLauncher:
    """Each run is a container as a job has one: same sandbox, same names, same marks, no network."""

    def __init__(self, runtime: JobRuntime, machine_id: str) -> None:
        self._runtime = runtime
        self._machine_id = machine_id
        self._image = ""
        self._lock = threading.Lock()
        self._names: set[str] = set()

    def names(self) -> frozenset[str]:
        with self._lock:
            return frozenset(self._names)

    def prepare(self, plan: BenchmarkPlan, cancelled: Cancelled) -> None:
        if plan.image is None:
            raise BenchmarkRefused("not_installed")
        if "@sha256:" not in plan.image:
            log.error("the benchmark image is not named by its digest", extra={"image": plan.image})
            raise BenchmarkRefused("not_installed")
        try:
            self._image = self._runtime.prepare(self._order(plan, ()), lambda: cancelled(0))
        except RuntimeRefused as refused:
            raise BenchmarkRefused(_REFUSALS.get(refused.reason, "unknown")) from None
        except EngineUnavailable:
            raise BenchmarkRefused("unknown") from None
        if cancelled(0):
            raise BenchmarkRefused("interrupted")

    def start(self, plan: BenchmarkPlan, arguments: Sequence[str]) -> "ContainerRun":
        order = self._order(plan, arguments)
        with self._lock:
            self._names.add(order.name)
        run = ContainerRun(self._runtime, order.name, self._forget)
        try:
            self._runtime.start(order, self._image)
        except RuntimeRefused as refused:
            run.close()
            raise BenchmarkRefused(_REFUSALS.get(refused.reason, "unknown")) from None
        except EngineUnavailable:
            run.close()
            raise BenchmarkRefused("unknown") from None
        return run

    def _forget(self, name: str) -> None:
        with self._lock:
            self._names.discard(name)

    def _order(self, plan: BenchmarkPlan, arguments: Sequence[str]) -> JobOrder:
        """A fresh name each time: what an earlier agent left behind is never taken for ours."""
        job_id = str(uuid4())
        return JobOrder(
            name=job_name(job_id, 1),
            machine_id=self._machine_id,
            own_image=True,
            plan=AttemptPlan(
                attempt_id=plan.run_id,
                job_id=job_id,
                number=1,
                token="benchmark",
                desired="run",
                stop_reason=None,
                image=plan.image or "",
                command=tuple(arguments),
                environment={},
                gpu_uuids=(plan.gpu_uuid,),
                limits=JobLimits(
                    memory_bytes=MEMORY_BYTES,
                    cpus=float(min(MOST_CPUS, os.cpu_count() or 1)),
                    disk_bytes=GIB,
                    shm_bytes=GIB,
                    pids=1024,
                ),
                time_limit_s=plan.time_limit_s,
                disconnect_grace_s=plan.time_limit_s,
                log_limit_bytes=LOG_LIMIT_BYTES,
            ),
        )


class ContainerRun:
    def __init__(self, runtime: JobRuntime, name: str, closed: Callable[[str], None]) -> None:
        self._runtime = runtime
        self._name = name
        self._closed = closed
        self._content = bytearray()

    def ended(self) -> bool:
        try:
            return self._runtime.observe(self._name).state in (JobState.EXITED, JobState.MISSING)
        except EngineUnavailable:
            return False

    def output(self) -> bytes:
        while True:
            part = self._runtime.log_read(self._name, len(self._content), _READ_BYTES)
            self._content += part.content
            if len(part.content) < _READ_BYTES:
                return bytes(self._content)

    def close(self) -> None:
        """What the engine does not let us remove now, the sweep for orphans removes later."""
        try:
            self._runtime.kill(self._name)
            self._runtime.release(self._name)
            self._runtime.forget(self._name)
        except EngineUnavailable:
            log.warning("a benchmark's container is left to the sweep", extra={"container": self._name})
        finally:
            self._closed(self._name)


class ChildLauncher:
    """For machines without an engine, and for tests: no isolation, so never for a stranger's code. The suite is ours."""

    def __init__(self, python: str, options: Sequence[str] = ()) -> None:
        """`python`: an interpreter with NumPy and torch. `options`: of the suite, before its command."""
        self._python = python
        self._options = tuple(options)

    def names(self) -> frozenset[str]:
        return frozenset()

    def prepare(self, plan: BenchmarkPlan, cancelled: Cancelled) -> None:
        """Nothing has to be fetched."""

    def start(self, plan: BenchmarkPlan, arguments: Sequence[str]) -> "ChildRun":
        environment = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
        environment |= {
            "PYTHONPATH": str(_PACKAGES),
            "CUDA_VISIBLE_DEVICES": plan.gpu_uuid,
            "HOME": tempfile.gettempdir(),
        }
        output = tempfile.TemporaryFile()  # noqa: SIM115 (it belongs to the run, which closes it)
        try:
            process = subprocess.Popen(
                [self._python, "-m", "agent.suite", *self._options, *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.DEVNULL,
            )
        except OSError:
            output.close()
            raise BenchmarkRefused("not_installed") from None
        return ChildRun(process, output)


class ChildRun:
    def __init__(self, process: subprocess.Popen[bytes], output: IO[bytes]) -> None:
        self._process = process
        self._file = output

    def ended(self) -> bool:
        return self._process.poll() is not None

    def output(self) -> bytes:
        # The child writes through the same open file: our place in it is its own, so we read by position.
        return os.pread(self._file.fileno(), LOG_LIMIT_BYTES, 0)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._file.close()

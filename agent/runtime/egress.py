"""No job gets a network that is not behind the host's egress rules: tried before each, from a network made like the job's."""

import logging
import threading
import time
from typing import Protocol
from uuid import uuid4

from agent.clock import boot_seconds
from agent.runtime.base import JobOrder, JobRuntime, JobState, RuntimeRefused, job_name
from agent_protocol.messages import AttemptPlan, JobLimits

UNGUARDED = "egress_unguarded"
# A probe this young speaks for the next job too: several may start at once.
FRESH_S = 10.0
# While nothing starts: how soon mended rules are noticed, and how soon lost ones.
RETRY_S = 60.0
RENEW_S = 600.0
# Containers start slowly on a busy host. The probe itself takes seconds at most.
_PATIENCE_S = 60.0
_POLL_S = 0.2

log = logging.getLogger("agent.egress")


class ImageRuntime(JobRuntime, Protocol):
    def image_present(self, image: str) -> bool:
        """Whether the engine has this image, by its whole name."""


class EgressProbe:
    """Runs the agent's own image as if it were a job: `agent egress-probe` (agent.egress) in the same sandbox."""

    def __init__(self, runtime: ImageRuntime, image: str, machine_id: str) -> None:
        self._runtime = runtime
        self._image = image
        self._machine_id = machine_id
        self._lock = threading.Lock()
        self._looked_at = float("-inf")
        self._unguarded: str | None = None
        self.names: set[str] = set()
        """Containers that are probes; they are nobody's orphans."""

    def require(self, order: JobOrder) -> None:
        """Raises RuntimeRefused unless the rules hold; a probe is let through."""
        if order.name in self.names:
            return
        if self._look(FRESH_S) is not None:
            raise RuntimeRefused(UNGUARDED)

    def degraded(self) -> tuple[str, ...]:
        """Codes for the platform; looks again from time to time. Raises EngineUnavailable."""
        return () if self._look(RENEW_S if self._unguarded is None else RETRY_S) is None else (UNGUARDED,)

    def _look(self, max_age_s: float) -> str | None:
        """What was found open, at most that long ago; null when the rules hold."""
        with self._lock:
            if boot_seconds() - self._looked_at > max_age_s:
                self._unguarded = self._probe()
                self._looked_at = boot_seconds()
                if self._unguarded is not None:
                    log.warning("the network rules are not in force", extra={"found": self._unguarded})
            return self._unguarded

    def _probe(self) -> str | None:
        order = _order(self._image, self._machine_id)
        self.names.add(order.name)
        try:
            image = self._image
            if not self._runtime.image_present(image):
                image = self._runtime.prepare(order, lambda: False)
            self._runtime.start(order, image)
            return self._answer(order.name)
        except RuntimeRefused as refused:
            return f"the probe could not run: {refused}"
        finally:
            self._runtime.release(order.name)
            self._runtime.forget(order.name)
            self.names.discard(order.name)

    def _answer(self, name: str) -> str | None:
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            seen = self._runtime.observe(name)
            if seen.state not in (JobState.CREATED, JobState.RUNNING):
                break
            if time.monotonic() > deadline:
                return "the probe did not end"
            time.sleep(_POLL_S)
        if seen.exit_code == 0:
            return None
        said = self._runtime.log_read(name, 0, 500).content.decode("utf-8", "replace").strip()
        return said or f"the probe ended with {seen.exit_code}"


def _order(image: str, machine_id: str) -> JobOrder:
    plan = AttemptPlan(
        attempt_id=str(uuid4()),
        job_id=str(uuid4()),
        number=1,
        token="-",
        desired="run",
        stop_reason=None,
        image=image,
        command=("egress-probe",),
        environment={},
        gpu_uuids=(),
        limits=JobLimits(memory_bytes=128 * 2**20, cpus=1.0, disk_bytes=0, shm_bytes=0, pids=64),
        time_limit_s=60,
        disconnect_grace_s=60,
        log_limit_bytes=4096,
    )
    return JobOrder(name=job_name(plan.job_id, plan.number), machine_id=machine_id, plan=plan, own_image=True)

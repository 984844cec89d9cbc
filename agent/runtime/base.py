"""What every runtime can do, and the words it says it with."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from agent_protocol.messages import AttemptPlan, RegistryLogin

LOG_CUT_MARK = b"\n[log limit reached: what follows was not kept]\n"


def job_name(job_id: str, number: int) -> str:
    """Name of a job's container. One name per attempt makes creating it idempotent."""
    return f"gpunex-job-{job_id}-{number}"


class RuntimeRefused(Exception):
    """The job cannot run here. `reason` is one of agent_protocol.reasons, `message_code` narrows it down."""

    def __init__(self, reason: str, message_code: str | None = None) -> None:
        super().__init__(f"{reason} ({message_code})" if message_code else reason)
        self.reason = reason
        self.message_code = message_code


class ImageGone(RuntimeRefused):
    """What `prepare` brought has been removed by somebody since: prepare again. Who cannot blames the machine for it."""

    def __init__(self) -> None:
        super().__init__("container_create_failed", "image_removed")


class EngineUnavailable(Exception):
    """The engine did not answer; nothing is known and the call may be repeated."""


class JobState(StrEnum):
    MISSING = "missing"
    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What the runtime sees of one job.

    `reason` is set when the runtime itself knows why it ended (engine_restart, host_restart); null leaves the judgement
    to the exit code and to what was ordered. `ran_s`: how long it ran, where the runtime can tell.
    """

    state: JobState
    exit_code: int | None = None
    oom_killed: bool = False
    reason: str | None = None
    message_code: str | None = None
    ran_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class FoundJob:
    """A job found on the host by our mark."""

    name: str
    attempt_id: str | None


@dataclass(frozen=True, kw_only=True)
class JobOrder:
    """One attempt to run under a name, on behalf of a machine.

    `own_image`: the image is the product's own (a probe's, the benchmark's), which stays on the machine.
    `plan`: with the secrets in its environment. `login`: of a private image's registry.
    """

    name: str
    machine_id: str
    plan: AttemptPlan = field(repr=False)
    login: RegistryLogin | None = field(default=None, repr=False)
    own_image: bool = False


@dataclass(frozen=True, kw_only=True)
class LogSlice:
    """Bytes from an offset. `complete`: the log ends here and nothing will be added."""

    content: bytes
    complete: bool


@dataclass(frozen=True, kw_only=True)
class EngineFacts:
    """What the runtime knows about the host; null is "not known"."""

    engine: str | None = None
    engine_version: str | None = None
    operating_system: str | None = None
    kernel: str | None = None


class JobRuntime(Protocol):
    """All calls may be repeated; those that talk to an engine raise EngineUnavailable when it does not answer."""

    poll_interval_s: float

    def facts(self) -> EngineFacts:
        """Engine and host, for the inventory."""

    def available(self) -> bool:
        """Whether the engine answers now. Never raises."""

    def degraded(self) -> tuple[str, ...]:
        """Why no new jobs should come here: codes of agent_protocol.reasons.DEGRADATIONS."""

    def prepare(self, order: JobOrder, cancelled: Callable[[], bool]) -> str:
        """Make the image present and return its immutable name. Raises RuntimeRefused; stops early when cancelled."""

    def start(self, order: JobOrder, image: str) -> None:
        """Create and start the job; one that bears the name already is adopted. Raises RuntimeRefused; ImageGone when the
        image has to be prepared again."""

    def adopt(self, name: str, log_limit_bytes: int) -> None:
        """Take up following a job that an earlier agent started."""

    def observe(self, name: str) -> Observation:
        """Where the job stands now."""

    def terminate(self, name: str) -> None:
        """Ask the job to end (TERM). A job that is gone is fine."""

    def kill(self, name: str) -> None:
        """End the job (KILL). A job that is gone is fine."""

    def log_read(self, name: str, offset: int, limit: int) -> LogSlice:
        """At most `limit` bytes of output from `offset`."""

    def disk_used_bytes(self, name: str) -> int | None:
        """What the job has written to its workspace; null when the engine bounds it by itself or cannot tell."""

    def release(self, name: str) -> None:
        """Remove everything of an ended job but its log."""

    def forget(self, name: str) -> None:
        """Remove the log too."""

    def found(self) -> list[FoundJob]:
        """Every job on this host that carries this machine's mark."""

    def leftovers(self) -> list[str]:
        """Names of this machine's jobs of which something is here, but no job: what was left half removed, or half made."""

    def tidy(self) -> None:
        """Once a minute: remove what is kept for coming jobs and has become too much."""

    def close(self) -> None:
        """Let go of the engine; jobs go on running."""

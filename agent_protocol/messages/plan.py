"""What the platform wants a host to do: a level, not a stream of commands."""

from dataclasses import dataclass
from typing import Any, ClassVar

from agent_protocol.challenge import MAX_N
from agent_protocol.errors import ProtocolError
from agent_protocol.fields import (
    AnyObject,
    Choice,
    ListOf,
    MapOf,
    Message,
    Nullable,
    Number,
    Text,
    UuidText,
    integer,
    nested,
    optional_boolean,
    optional_text,
    text,
    wire,
)
from agent_protocol.messages.bench import MAX_ROUNDS
from agent_protocol.messages.enrolment import BOOT_ID_LENGTH
from agent_protocol.messages.hardware import MAX_GPUS, UUID_PATTERN, gpu_uuid
from agent_protocol.reasons import STOP_REASONS

TOKEN_LENGTH = 128
IMAGE_LENGTH = 512
MAX_ARGUMENTS = 256
MAX_ARGUMENT_LENGTH = 32_768
MAX_ENVIRONMENT = 256
ENVIRONMENT_KEY = r"[A-Za-z_][A-Za-z0-9_]{0,127}"
MAX_TIME_LIMIT_S = 30 * 86_400
MAX_GRACE_S = 24 * 3600
PLAN_KINDS = ("attempt", "benchmark")


@dataclass(frozen=True, kw_only=True)
class JobLimits(Message):
    """What a container may use at most."""

    STRAY_FIELDS_IGNORED: ClassVar[bool] = True

    memory_bytes: int = integer(1)
    cpus: float = wire(Number(0.01, 4096))
    disk_bytes: int = integer(0)
    shm_bytes: int = integer(0)
    pids: int = integer(1, 4_194_304)


@dataclass(frozen=True, kw_only=True)
class AttemptPlan(Message):
    """One attempt of a job on this host. `token` fences it: a report under another token is refused.

    `started`: this machine has reported it as running, so it must not be begun again. `boot_id`: the boot that it was placed
    on; another one refuses to begin it. `secrets`: it needs what is collected once (messages.secrets): before the pull when
    `private_image`, else before the start.
    """

    STRAY_FIELDS_IGNORED: ClassVar[bool] = True

    attempt_id: str = wire(UuidText())
    job_id: str = wire(UuidText())
    number: int = integer(1, 1000)
    token: str = text(TOKEN_LENGTH, min_length=1)
    desired: str = wire(Choice(("run", "stop")))
    stop_reason: str | None = wire(Nullable(Choice(STOP_REASONS)))
    image: str = text(IMAGE_LENGTH, min_length=1)
    command: tuple[str, ...] = wire(ListOf(Text(MAX_ARGUMENT_LENGTH, multiline=True), MAX_ARGUMENTS))
    environment: dict[str, str] = wire(
        MapOf(Text(MAX_ARGUMENT_LENGTH, multiline=True), MAX_ENVIRONMENT, ENVIRONMENT_KEY)
    )
    gpu_uuids: tuple[str, ...] = wire(ListOf(Text(96, 5, UUID_PATTERN), MAX_GPUS))
    limits: JobLimits = nested(JobLimits)
    time_limit_s: int = integer(1, MAX_TIME_LIMIT_S)
    disconnect_grace_s: int = integer(0, MAX_GRACE_S)
    log_limit_bytes: int = integer(0)
    started: bool | None = optional_boolean()
    boot_id: str | None = optional_text(BOOT_ID_LENGTH)
    secrets: bool | None = optional_boolean()
    private_image: bool | None = optional_boolean()

    def check(self) -> None:
        if len(set(self.gpu_uuids)) != len(self.gpu_uuids):
            raise ProtocolError("gpu_uuids", "the same UUID twice", "each UUID once")


@dataclass(frozen=True, kw_only=True)
class BenchmarkChallenge(Message):
    """The matrices whose products prove the work: n by n, `rounds` of them chained by hash. Their seed comes at the start."""

    STRAY_FIELDS_IGNORED: ClassVar[bool] = True

    nonce: str = text(128, min_length=1)
    n: int = integer(1, MAX_N)
    rounds: int = integer(1, MAX_ROUNDS)


@dataclass(frozen=True, kw_only=True)
class BenchmarkPlan(Message):
    """`image`: the suite's image by digest; null where the platform has none (hosts without an engine need none)."""

    STRAY_FIELDS_IGNORED: ClassVar[bool] = True

    run_id: str = wire(UuidText())
    gpu_uuid: str = gpu_uuid()
    suite_version: int = integer(1, 1_000_000)
    challenge: BenchmarkChallenge = nested(BenchmarkChallenge)
    time_limit_s: int = integer(1, 86_400)
    image: str | None = optional_text(IMAGE_LENGTH)


@dataclass(frozen=True, kw_only=True)
class PlanItem(Message):
    """One wanted thing. `key` is the attempt's or run's id; an item that leaves the plan is to be stopped.

    The body is read apart by `typed_body`, so that one item the agent cannot read never hides its neighbours.
    """

    STRAY_FIELDS_IGNORED: ClassVar[bool] = True

    kind: str = text(40, pattern=r"[a-z_]+")
    key: str = wire(UuidText())
    body: dict[str, Any] = wire(AnyObject())

    def typed_body(self) -> AttemptPlan | BenchmarkPlan:
        """The body as its message. Raises ProtocolError, also for a kind this version does not know."""
        body: AttemptPlan | BenchmarkPlan
        if self.kind == "attempt":
            body = AttemptPlan.parse(self.body)
            found = body.attempt_id
        elif self.kind == "benchmark":
            body = BenchmarkPlan.parse(self.body)
            found = body.run_id
        else:
            raise ProtocolError("kind", self.kind, " | ".join(PLAN_KINDS))
        if found != self.key:
            raise ProtocolError("key", self.key, f"the id in the body, {found}")
        return body

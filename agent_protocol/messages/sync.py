"""The heartbeat: what is, against what should be."""

from dataclasses import dataclass
from typing import ClassVar

from agent_protocol.fields import (
    Boolean,
    Choice,
    ListOf,
    Message,
    Nested,
    Nullable,
    Number,
    Text,
    UuidText,
    instant_check,
    integer,
    messages,
    nested,
    optional_boolean,
    optional_integer,
    optional_text,
    text,
    wire,
)
from agent_protocol.messages.enrolment import BOOT_ID_LENGTH
from agent_protocol.messages.hardware import MAX_GPUS, GpuTelemetry, Inventory
from agent_protocol.messages.plan import TOKEN_LENGTH, PlanItem
from agent_protocol.reasons import DEGRADATIONS, REASON_CODES
from agent_protocol.version import PROTOCOL

# A GPU runs one attempt at a time, but ended ones are repeated until they leave the plan.
MAX_ATTEMPTS = 128
MAX_BENCHMARKS = 64
MAX_PLAN_ITEMS = 256
ATTEMPT_STATES = ("pulling", "starting", "running", "stopping", "ended")
BENCHMARK_STATES = ("waiting", "running", "done", "failed")


@dataclass(frozen=True, kw_only=True)
class AttemptStatus(Message):
    """What the agent sees of one attempt. `elapsed_s`: whole seconds since the container started, monotonic."""

    attempt_id: str = wire(UuidText())
    token: str = text(TOKEN_LENGTH, min_length=1)
    state: str = wire(Choice(ATTEMPT_STATES))
    elapsed_s: int | None = optional_integer()
    exit_code: int | None = optional_integer(-255, 255)
    reason: str | None = wire(Nullable(Choice(REASON_CODES)))


@dataclass(frozen=True, kw_only=True)
class BenchmarkStatus(Message):
    run_id: str = wire(UuidText())
    state: str = wire(Choice(BENCHMARK_STATES))
    progress_percent: int | None = optional_integer(0, 100)


@dataclass(frozen=True, kw_only=True)
class SyncRequest(Message):
    """POST /agent/v1/sync. `sequence` rises strictly within a `boot_id`; a step back means a second agent. `sent_at` is what
    the host's clock says (ISO 8601 with offset); it only serves to notice a clock that is wrong."""

    protocol: int = integer(PROTOCOL, PROTOCOL)
    sequence: int = integer(1)
    boot_id: str = text(BOOT_ID_LENGTH, min_length=1)
    agent_version: str = text(32, min_length=1)
    sent_at: str | None = optional_text(40)
    plan_version: int | None = optional_integer()
    degraded: tuple[str, ...] = wire(ListOf(Choice(tuple(DEGRADATIONS)), 16))
    inventory_digest: str = text(64, pattern=r"[0-9a-f]{64}")
    inventory: Inventory | None = wire(Nullable(Nested(Inventory)))
    telemetry: tuple[GpuTelemetry, ...] = messages(GpuTelemetry, MAX_GPUS)
    attempts: tuple[AttemptStatus, ...] = messages(AttemptStatus, MAX_ATTEMPTS)
    benchmarks: tuple[BenchmarkStatus, ...] = messages(BenchmarkStatus, MAX_BENCHMARKS)

    def check(self) -> None:
        if self.sent_at is not None:
            instant_check("sent_at", self.sent_at)


@dataclass(frozen=True, kw_only=True)
class BellTicket(Message):
    """Where the doorbell hangs, and the right to listen to it for ten minutes."""

    STRAY_FIELDS_IGNORED: ClassVar[bool] = True

    path: str = text(2000, min_length=1, pattern=r"/[^/].*")
    ticket: str = wire(Text(1024, 1))


@dataclass(frozen=True, kw_only=True)
class SyncReply(Message):
    """`plan` null: the version the agent named is still the wanted one. `rotate_credential`: change it now."""

    STRAY_FIELDS_IGNORED: ClassVar[bool] = True

    protocol: int = integer(PROTOCOL, PROTOCOL)
    server_time: str = text(40, min_length=1)
    plan_version: int = integer()
    plan: tuple[PlanItem, ...] | None = wire(Nullable(ListOf(Nested(PlanItem), MAX_PLAN_ITEMS)))
    inventory_wanted: bool = wire(Boolean())
    sync_after_s: float = wire(Number(0, 3600))
    minimum_agent_version: str = text(32, min_length=1)
    rotate_credential: bool | None = optional_boolean()
    bell: BellTicket = nested(BellTicket)

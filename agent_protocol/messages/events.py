"""Things that happened and must arrive: at least once, de-duplicated by their id."""

from dataclasses import dataclass
from typing import Any, ClassVar

from agent_protocol.errors import ProtocolError
from agent_protocol.fields import (
    AnyObject,
    Boolean,
    Choice,
    ListOf,
    MapOf,
    Message,
    Nullable,
    Number,
    Text,
    UuidText,
    instant_check,
    integer,
    messages,
    nested,
    optional_integer,
    optional_number,
    optional_text,
    text,
    wire,
)
from agent_protocol.messages.hardware import gpu_uuid
from agent_protocol.messages.plan import TOKEN_LENGTH
from agent_protocol.reasons import BENCHMARK_FAILURES, REASON_CODES

MAX_EVENTS = 100
_MAX_RATE = 1e9
_NAME = r"[a-z][a-z0-9_]{0,63}"


@dataclass(frozen=True, kw_only=True)
class AttemptEnded(Message):
    """`message_code` narrows the reason down for people; the engine's own words never travel."""

    attempt_id: str = wire(UuidText())
    token: str = text(TOKEN_LENGTH, min_length=1)
    exit_code: int | None = optional_integer(-255, 255)
    reason: str = wire(Choice(REASON_CODES))
    elapsed_s: int | None = optional_integer()
    oom_killed: bool = wire(Boolean())
    message_code: str | None = optional_text(64)


@dataclass(frozen=True, kw_only=True)
class BenchmarkMetrics(Message):
    """Measured figures; null is "not measured". TFLOPS, GB/s (10⁹), MB/s and Mbit/s (10⁶), milliseconds."""

    fp32_tflops: float | None = optional_number(0, _MAX_RATE)
    fp16_tflops: float | None = optional_number(0, _MAX_RATE)
    tensor_tflops: float | None = optional_number(0, _MAX_RATE)
    memory_read_gbps: float | None = optional_number(0, _MAX_RATE)
    memory_write_gbps: float | None = optional_number(0, _MAX_RATE)
    memory_copy_gbps: float | None = optional_number(0, _MAX_RATE)
    storage_read_mbps: float | None = optional_number(0, _MAX_RATE)
    storage_write_mbps: float | None = optional_number(0, _MAX_RATE)
    network_down_mbps: float | None = optional_number(0, _MAX_RATE)
    network_up_mbps: float | None = optional_number(0, _MAX_RATE)
    latency_ms: float | None = optional_number(0, _MAX_RATE)


@dataclass(frozen=True, kw_only=True)
class BenchmarkConditions(Message):
    """Under which circumstances the figures came about.

    `details`: further numbers by name (spreads, further rates). `unmeasured`: per metric that is null, why.
    """

    clocks_mhz: int | None = optional_integer(0, 100_000)
    temperature_c: float | None = optional_number(-100, 300)
    throttle_reasons: tuple[str, ...] = wire(ListOf(Text(64, 1), 32))
    foreign_processes: int | None = optional_integer(0, 100_000)
    simulated: bool = wire(Boolean())
    device: str = wire(Choice(("cuda", "cpu", "simulated")))
    details: dict[str, float] | None = wire(Nullable(MapOf(Number(0, 1e15), 64, _NAME)))
    unmeasured: dict[str, str] | None = wire(Nullable(MapOf(Text(64, 1), 32, _NAME)))


@dataclass(frozen=True, kw_only=True)
class BenchmarkReport(Message):
    run_id: str = wire(UuidText())
    nonce: str = text(128, min_length=1)
    suite_version: int = integer(1, 1_000_000)
    gpu_uuid: str = gpu_uuid()
    metrics: BenchmarkMetrics = nested(BenchmarkMetrics)
    conditions: BenchmarkConditions = nested(BenchmarkConditions)


@dataclass(frozen=True, kw_only=True)
class BenchmarkFailed(Message):
    run_id: str = wire(UuidText())
    nonce: str = text(128, min_length=1)
    reason: str = wire(Choice(tuple(BENCHMARK_FAILURES)))


@dataclass(frozen=True, kw_only=True)
class GpuXid(Message):
    """A driver error event; `at` is when the agent saw it (ISO 8601)."""

    uuid: str = gpu_uuid()
    xid: int = integer(0, 10_000)
    at: str = text(40, min_length=1)

    def check(self) -> None:
        instant_check("at", self.at)


@dataclass(frozen=True, kw_only=True)
class OrphanFound(Message):
    """A container that carries our labels and that nobody had ordered; it was removed."""

    name: str = text(128, min_length=1)


EventBody = AttemptEnded | BenchmarkReport | BenchmarkFailed | GpuXid | OrphanFound

EVENT_BODIES: dict[str, type[EventBody]] = {
    "attempt_ended": AttemptEnded,
    "benchmark_report": BenchmarkReport,
    "benchmark_failed": BenchmarkFailed,
    "gpu_xid": GpuXid,
    "orphan": OrphanFound,
}
EVENT_KINDS: tuple[str, ...] = tuple(EVENT_BODIES)


@dataclass(frozen=True, kw_only=True)
class Event(Message):
    """The envelope. Its body is read apart by `typed_body`, so that one bad event never refuses its neighbours."""

    id: str = wire(UuidText())
    kind: str = text(40, pattern=r"[a-z_]+")
    occurred_at: str = text(40, min_length=1)
    body: dict[str, Any] = wire(AnyObject())

    def check(self) -> None:
        instant_check("occurred_at", self.occurred_at)

    def typed_body(self) -> EventBody:
        """The body as its message. Raises ProtocolError, also for a kind this version does not know."""
        if self.kind not in EVENT_BODIES:
            raise ProtocolError("kind", self.kind, " | ".join(EVENT_KINDS))
        try:
            return EVENT_BODIES[self.kind].parse(self.body)
        except ProtocolError as error:
            raise error.under("body") from None


@dataclass(frozen=True, kw_only=True)
class EventBatch(Message):
    """POST /agent/v1/events."""

    events: tuple[Event, ...] = messages(Event, MAX_EVENTS)


@dataclass(frozen=True, kw_only=True)
class EventRefused(Message):
    STRAY_FIELDS_IGNORED: ClassVar[bool] = True

    id: str = wire(UuidText())
    code: str = text(64, min_length=1)


@dataclass(frozen=True, kw_only=True)
class EventsReply(Message):
    """Both lists leave the outbox: a refused event would be refused again."""

    STRAY_FIELDS_IGNORED: ClassVar[bool] = True

    accepted: tuple[str, ...] = wire(ListOf(UuidText(), MAX_EVENTS))
    refused: tuple[EventRefused, ...] = messages(EventRefused, MAX_EVENTS)

"""What a look at the GPUs brings, whoever looked."""

from dataclasses import dataclass, field
from typing import Protocol

from agent_protocol.messages import Gpu, GpuTelemetry


@dataclass(frozen=True, kw_only=True)
class ProbeReading:
    """One look. `degraded`: codes of agent_protocol.reasons.DEGRADATIONS; with them, `gpus` may be what was last known.

    `xids`: driver error events since the look before, as (GPU UUID, number).
    """

    gpus: tuple[Gpu, ...] = ()
    telemetry: tuple[GpuTelemetry, ...] = ()
    driver_version: str | None = None
    cuda_version: str | None = None
    degraded: tuple[str, ...] = ()
    xids: tuple[tuple[str, int], ...] = field(default=())


class GpuProbe(Protocol):
    """`simulated` is said wherever figures of this probe go."""

    simulated: bool

    def read(self) -> ProbeReading:
        """Look now. Never raises and never takes much longer than its deadline: failures are `degraded`."""

    def busy(self, uuids: frozenset[str]) -> None:
        """Which GPUs our own jobs use at the moment (a simulation shows load there)."""

    def close(self) -> None:
        """Let go of the driver."""

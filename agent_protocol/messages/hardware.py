"""What a host is made of. Null is "could not be read", never zero."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from agent_protocol.errors import ProtocolError
from agent_protocol.fields import (
    Choice,
    ListOf,
    MapOf,
    Message,
    Nullable,
    Text,
    messages,
    nested,
    optional_boolean,
    optional_integer,
    optional_number,
    optional_text,
    text,
    wire,
)
from agent_protocol.reasons import THROTTLE_REASONS

# The largest HGX-class boxes carry 16; twice that leaves room for external enclosures.
MAX_GPUS = 32
MAX_NAME = 128
UUID_PATTERN = r"(GPU|MIG)-[0-9A-Za-z-]{1,90}"

GPU_HEALTH = ("ok", "lost", "error", "unknown")


def gpu_uuid() -> Any:
    """A field holding a GPU's UUID as NVML spells it."""
    return text(96, min_length=5, pattern=UUID_PATTERN)


@dataclass(frozen=True, kw_only=True)
class Host(Message):
    """The machine around the GPUs; sizes in bytes."""

    architecture: str = text(32, min_length=1)
    hostname: str | None = optional_text(MAX_NAME)
    os: str | None = optional_text(MAX_NAME)
    kernel: str | None = optional_text(MAX_NAME)
    cpu_model: str | None = optional_text(MAX_NAME)
    cpu_count: int | None = optional_integer(1, 4096)
    ram_bytes: int | None = optional_integer(1)
    disk_total_bytes: int | None = optional_integer()
    disk_free_bytes: int | None = optional_integer()
    engine: str | None = optional_text(64)
    engine_version: str | None = optional_text(64)
    toolkit_version: str | None = optional_text(64)
    driver_version: str | None = optional_text(64)
    cuda_version: str | None = optional_text(64)


@dataclass(frozen=True, kw_only=True)
class Gpu(Message):
    """One card. `reasons` says for each null field why it could not be read (a code such as `not_supported`)."""

    uuid: str = gpu_uuid()
    name: str | None = optional_text(MAX_NAME)
    memory_bytes: int | None = optional_integer(1)
    pci_bus_id: str | None = optional_text(32)
    pcie_generation: int | None = optional_integer(1, 16)
    pcie_width: int | None = optional_integer(1, 64)
    power_limit_w: float | None = optional_number(0, 10_000)
    ecc_enabled: bool | None = optional_boolean()
    mig_enabled: bool | None = optional_boolean()
    vbios: str | None = optional_text(64)
    health: str = wire(Choice(GPU_HEALTH))
    reasons: dict[str, str] = wire(MapOf(Text(64), 32, r"[a-z_]{1,40}"))


@dataclass(frozen=True, kw_only=True)
class Inventory(Message):
    """Host and cards together; what `inventory_digest` covers."""

    host: Host = nested(Host)
    gpus: tuple[Gpu, ...] = messages(Gpu, MAX_GPUS)
    driver_version: str | None = optional_text(64)
    cuda_version: str | None = optional_text(64)

    def check(self) -> None:
        uuids = [gpu.uuid for gpu in self.gpus]
        if len(set(uuids)) != len(uuids):
            raise ProtocolError("gpus", "the same UUID twice", "each UUID once")


@dataclass(frozen=True, kw_only=True)
class GpuTelemetry(Message):
    """One reading of one card, as light as it can be. `throttle_reasons`: empty is "none", null "could not be read".

    `held_after_job`: true when memory of the card is still in use though the last job on it has ended; null when there is
    nothing to say.
    """

    uuid: str = gpu_uuid()
    utilization_percent: float | None = optional_number(0, 100)
    memory_used_bytes: int | None = optional_integer()
    temperature_c: float | None = optional_number(-100, 300)
    power_w: float | None = optional_number(0, 10_000)
    sm_clock_mhz: int | None = optional_integer(0, 100_000)
    memory_clock_mhz: int | None = optional_integer(0, 100_000)
    foreign_processes: int | None = optional_integer(0, 100_000)
    throttle_reasons: tuple[str, ...] | None = wire(Nullable(ListOf(Choice(THROTTLE_REASONS), 16)))
    held_after_job: bool | None = optional_boolean()


def inventory_digest(inventory: Inventory) -> str:
    """SHA-256 (hex) over what is stable: free disk space is left out and the order of GPUs does not matter."""
    body = inventory.to_dict()
    del body["host"]["disk_free_bytes"]
    body["gpus"].sort(key=lambda gpu: gpu["uuid"])
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()

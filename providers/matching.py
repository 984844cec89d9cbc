"""Which catalogue model a reported card is, pure: the exact NVML name, and visible memory within 5 %."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

MEMORY_TOLERANCE_PERCENT = 5
"""Drivers and firmware reserve a little; an A100 40 is never an 80, and a mislabelled card shows."""
MIB = 1024 * 1024


@dataclass(frozen=True)
class Known:
    """A catalogue row as the matcher needs it: its id and the memory sizes (MiB) it may show."""

    id: UUID
    memory_mib: tuple[int, ...]


@dataclass(frozen=True)
class Match:
    """``model`` is null when nobody can say; ``reason`` says why not (a Gpu.Reason), else empty."""

    model: UUID | None
    reason: str


def match(aliases: Mapping[str, Known], *, name: str | None, memory_bytes: int | None) -> Match:
    """The model of a card that calls itself ``name`` and shows ``memory_bytes``."""
    known = aliases.get(name or "")
    if known is None:
        return Match(None, "unknown_model")
    if memory_bytes is None:
        return Match(known.id, "memory_unknown")
    if any(_near(memory_bytes, size * MIB) for size in known.memory_mib):
        return Match(known.id, "")
    return Match(None, "memory_mismatch")


def _near(found: int, expected: int) -> bool:
    return abs(found - expected) * 100 <= expected * MEMORY_TOLERANCE_PERCENT

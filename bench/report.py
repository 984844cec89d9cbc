"""What one benchmark found, as a line of the table and as one JSON object."""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True)
class Report:
    """``value`` in ``unit``; where that is ``ratio``, ours ÷ baseline, medians over rounds. ``aim``: such as ``>= 0.5``."""

    name: str
    value: float
    unit: str
    aim: str
    work: str
    baseline: str
    rounds: list[dict[str, float]]
    detail: dict[str, Any] = field(default_factory=dict)
    conditions: tuple[bool, ...] = ()
    """Further things that must hold, such as "no SQL"."""

    @property
    def ok(self) -> bool:
        relation, _, bound = self.aim.partition(" ")
        held = self.value >= float(bound) if relation == ">=" else self.value <= float(bound)
        return held and all(self.conditions)

    def to_json(self) -> dict[str, Any]:
        found = asdict(self) | {"ok": self.ok}
        del found["conditions"]
        return found

    def row(self) -> str:
        verdict = "ok" if self.ok else "MISSED"
        return f"{self.name:<12}{self.value:>10.3f} {self.unit:<8}{self.aim:<10}{verdict:<8}{self.work}"


def size(whole: int) -> int:
    """How large the work is: ``whole``, or the part of it that ``bin/bench --scale`` asks for."""
    return max(1, round(whole * float(os.environ.get("BENCH_SCALE", "1"))))


def chunks(items: Sequence[Item], length: int) -> Iterator[Sequence[Item]]:
    """The items, so many at a time."""
    return (items[start : start + length] for start in range(0, len(items), length))


def median(values: list[float]) -> float:
    return statistics.median(values)


def spread(values: list[float]) -> float:
    """(largest - smallest) ÷ median."""
    return (max(values) - min(values)) / median(values)

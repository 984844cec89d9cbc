from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Sheet:
    """What a file is drawn from: the printed number, kind, day of issue, first and last day, total, hash and facts."""

    label: str
    kind: str
    issued_on: str
    period: tuple[str, str] | None
    total_micro: int
    sha256: str
    facts: Mapping[str, Any]

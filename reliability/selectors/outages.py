"""When a machine was away, and with whom: what its owner needs to know to find out why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection

from providers.models import Machine
from reliability.models import Flip

TOGETHER = timedelta(minutes=2)
"""Heartbeats come every 15 s ± 20 % and silence is noticed after 90 s: what fails at once falls due within half a minute."""

_TOGETHER = """
SELECT asked.number, count(DISTINCT flip.machine_id)
FROM unnest(%(machines)s::uuid[], %(ats)s::timestamptz[]) WITH ORDINALITY AS asked (machine_id, at, number)
JOIN providers_machine mine ON mine.id = asked.machine_id
JOIN providers_machine other ON other.provider_id = mine.provider_id AND other.id <> mine.id
JOIN reliability_flip flip ON flip.machine_id = other.id AND flip."to" = 'offline'
    AND flip.at BETWEEN asked.at - %(near)s AND asked.at + %(near)s
GROUP BY asked.number
"""


def silent_together(silences: Sequence[tuple[UUID, datetime]]) -> list[int]:
    """For each (machine, since when it is offline): how many other machines of its owner went offline within two minutes."""
    found = [0] * len(silences)
    if silences:
        arguments: dict[str, Any] = {
            "machines": [str(machine_id) for machine_id, _at in silences],
            "ats": [at for _machine_id, at in silences],
            "near": TOGETHER,
        }
        with connection.cursor() as cursor:
            cursor.execute(_TOGETHER, arguments)
            for number, others in cursor.fetchall():
                found[number - 1] = others
    return found


@dataclass(frozen=True)
class Outage:
    """``back_at`` null: it is still away. ``rebooted``: it came back in another boot; null where that is not known."""

    since: datetime
    back_at: datetime | None
    rebooted: bool | None
    together: int

    @property
    def seconds(self) -> int | None:
        return None if self.back_at is None else int((self.back_at - self.since).total_seconds())


def outages_of(machine: Machine, *, limit: int = 10) -> list[Outage]:
    """The machine's last times offline, the newest first."""
    flips = Flip.objects.filter(machine=machine, to__in=["offline", "online"]).order_by("-at", "-pk")[: 4 * limit]
    found: list[tuple[datetime, Flip | None]] = []
    after: Flip | None = None
    for flip in flips:
        if flip.to == "offline":
            found.append((flip.at, after))
        after = flip if flip.to == "online" else None
    found = found[:limit]
    together = silent_together([(machine.pk, at) for at, _back in found])
    return [
        Outage(at, back.at if back else None, back.rebooted if back else None, others)
        for (at, back), others in zip(found, together, strict=True)
    ]

"""Which schedule governs a machine: its own, else its provider's, else round the clock."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from django.db.models import Q

from providers.models import Machine, Schedule
from providers.schedules import ALWAYS_ON, WeeklySchedule


def schedule_of(machine: Machine, at: datetime) -> WeeklySchedule:
    """The weekly schedule in force for ``machine`` at the instant ``at``."""
    return schedules_of([machine], at)[machine.pk]


def schedules_of(machines: Iterable[Machine], at: datetime) -> dict[UUID, WeeklySchedule]:
    """The same for many machines in one query: {machine id: schedule}."""
    wanted = list(machines)
    rows = Schedule.objects.filter(
        Q(machine__in=[machine.pk for machine in wanted]) | Q(provider__in={m.provider_id for m in wanted}),
        valid_from__lte=at,
    ).order_by("version")
    newest = {row.machine_id or row.provider_id: row for row in rows}
    found: dict[UUID, WeeklySchedule] = {}
    for machine in wanted:
        row = newest.get(machine.pk) or newest.get(machine.provider_id)
        found[machine.pk] = row.weekly if row else ALWAYS_ON
    return found


def schedule_versions(*, provider_id: UUID | None = None, machine_id: UUID | None = None) -> list[Schedule]:
    """All versions of one owner's schedule, oldest first: what was declared when."""
    return list(Schedule.objects.filter(provider=provider_id, machine=machine_id).order_by("version"))

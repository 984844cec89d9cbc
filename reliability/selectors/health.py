from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from providers.models import Provider
from reliability.models import GpuOccupancy, MachineHealth, Score
from reliability.models.occupancy import OCCUPIED_SAMPLES
from reliability.models.score import Subject


def health_of(machine_ids: Iterable[UUID]) -> dict[UUID, MachineHealth]:
    """The present health per machine; one that was never heard of is absent."""
    return MachineHealth.objects.in_bulk(list(machine_ids))


def score_of(subject_ids: Iterable[UUID]) -> dict[UUID, Score]:
    """The present score per provider or machine id (ids are unique across both). ``s`` is null while nothing is known;
    who was never scored is absent."""
    return {row.subject_id: row for row in Score.objects.filter(subject_id__in=list(subject_ids))}


def score_parts(provider: Provider) -> Score | None:
    """A provider's stored score with its three parts, or None before the first computation."""
    return Score.objects.filter(subject_kind=Subject.PROVIDER, subject_id=provider.pk).first()


def machines_offline() -> int:
    """Machines in service that are offline."""
    return MachineHealth.objects.filter(state="offline", machine__status="active").count()


def occupied_of(gpu_ids: Iterable[UUID]) -> dict[UUID, GpuOccupancy]:
    """The GPUs that are in use although nobody has rented them, and for that are not offered."""
    rows = GpuOccupancy.objects.filter(gpu__in=list(gpu_ids), samples__gte=OCCUPIED_SAMPLES)
    return {row.gpu_id: row for row in rows}

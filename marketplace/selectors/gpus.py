"""Which GPUs of a machine may be rented, and which of them are free."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from benchmarks.selectors import verdict_of
from providers.models import Gpu, GpuClaim
from reliability.selectors import occupied_of


@dataclass(frozen=True)
class Sellable:
    """A GPU that is active, passed its benchmark and is used by nobody else; ``free``: nobody has it."""

    gpu: Gpu
    free: bool


def claimed_ids(gpu_ids: Iterable[UUID]) -> set[UUID]:
    return set(GpuClaim.objects.filter(gpu_id__in=list(gpu_ids), live=True).values_list("gpu_id", flat=True))


def gpus_sellable(*, machine_id: UUID, gpu_model_id: UUID) -> list[Sellable]:
    """In id order. Lock the listing first when a decision hangs on it: claims of jobs are made under that lock."""
    gpus = list(Gpu.objects.filter(machine_id=machine_id, model_id=gpu_model_id, status="active").order_by("pk"))
    verdicts = verdict_of([gpu.pk for gpu in gpus])
    occupied = occupied_of(gpu.pk for gpu in gpus)
    passed = [gpu for gpu in gpus if gpu.pk in verdicts and verdicts[gpu.pk].passed and gpu.pk not in occupied]
    taken = claimed_ids(gpu.pk for gpu in passed)
    return [Sellable(gpu, gpu.pk not in taken) for gpu in passed]

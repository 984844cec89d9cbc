from __future__ import annotations

from django.db.models import QuerySet

from providers.matching import Known
from providers.models import GpuModel, GpuModelAlias


def models_offered() -> QuerySet[GpuModel]:
    """The models an application may name, largest family first by name."""
    return GpuModel.objects.filter(supported=True).order_by("name")


def aliases_known() -> dict[str, Known]:
    """Every NVML name we know, for providers.matching."""
    known: dict[str, Known] = {}
    for alias in GpuModelAlias.objects.select_related("model"):
        sizes = (alias.model.memory_mib, alias.model.memory_ecc_mib)
        known[alias.nvml_name] = Known(alias.model_id, tuple(size for size in sizes if size is not None))
    return known

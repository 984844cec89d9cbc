from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

OCCUPIED_SAMPLES = 3
"""Idle cards make noise and a reading may be stale: three in a row are believed."""


class GpuOccupancy(models.Model):
    """A GPU that nobody has rented and that is in use all the same. From OCCUPIED_SAMPLES readings on it is not offered.

    The row goes with the first reading that shows the card free. ``last_at``: of the last reading counted.
    """

    class Reason(models.TextChoices):
        FOREIGN_PROCESS = "foreign_process", _("A process that is not ours uses the GPU.")
        MEMORY_HELD = "memory_held", _("Memory of the GPU is in use although no job runs on it.")

    gpu = models.OneToOneField("providers.Gpu", on_delete=models.PROTECT, primary_key=True, related_name="occupancy")
    reason = models.CharField(max_length=16, choices=Reason)
    samples = models.PositiveSmallIntegerField()
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "GPU occupancies"

    def __str__(self) -> str:
        return f"{self.gpu_id}: {self.reason} × {self.samples}"

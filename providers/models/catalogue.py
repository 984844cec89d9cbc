from __future__ import annotations

from django.db import models

from core.models import BaseModel


class GpuModel(BaseModel):
    """A card we know: what it is called, how much memory shows, what its vendor promises and what healthy ones measure.

    ``memory_gb`` is the nominal size people filter by (a 24,564 MiB card is a 24 GB card). ``memory_mib`` is what the
    driver shows; ``memory_ecc_mib`` what it shows with ECC on, where that costs memory (GDDR cards), else null.
    Peaks are the vendor's, dense; references are medians of healthy cards, far below. Unknown is null.
    """

    slug = models.SlugField(max_length=40, unique=True)
    name = models.CharField(max_length=80, unique=True)
    family = models.CharField(max_length=40)
    memory_gb = models.PositiveIntegerField()
    memory_mib = models.PositiveIntegerField()
    memory_ecc_mib = models.PositiveIntegerField(null=True, blank=True)
    fp32_tflops_peak = models.DecimalField(max_digits=9, decimal_places=2)
    fp16_tflops_peak = models.DecimalField(max_digits=9, decimal_places=2)
    bandwidth_gbps_peak = models.DecimalField(max_digits=9, decimal_places=2)
    fp32_tflops_reference = models.DecimalField(max_digits=9, decimal_places=2, null=True, blank=True)
    fp16_tflops_reference = models.DecimalField(max_digits=9, decimal_places=2, null=True, blank=True)
    bandwidth_gbps_reference = models.DecimalField(max_digits=9, decimal_places=2, null=True, blank=True)
    supported = models.BooleanField(default=True)
    """Offered in the application form. An unsupported row still matches cards that are already here."""

    class Meta:
        ordering = ["name"]
        verbose_name = "GPU model"

    def __str__(self) -> str:
        return self.name


class GpuModelAlias(BaseModel):
    """A name under which NVML reports a model, letter by letter."""

    model = models.ForeignKey(GpuModel, on_delete=models.PROTECT, related_name="aliases")
    nvml_name = models.CharField(max_length=128, unique=True)

    class Meta:
        verbose_name = "GPU model alias"
        verbose_name_plural = "GPU model aliases"

    def __str__(self) -> str:
        return self.nvml_name

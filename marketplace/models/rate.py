from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from core.models import BaseModel
from marketplace.pricing import RATE_MAX_MICRO, RATE_MIN_MICRO


class Rate(BaseModel):
    """What a provider asks for a model from ``set_at`` on, in micro-USDC per GPU-hour. Append-only: the history is the rows.

    A row with a machine goes before the provider's row for the model; its rate is null where the exception was taken back.
    """

    provider = models.ForeignKey("providers.Provider", on_delete=models.PROTECT, related_name="rates")
    gpu_model = models.ForeignKey("providers.GpuModel", on_delete=models.PROTECT, related_name="+")
    machine = models.ForeignKey(
        "providers.Machine", on_delete=models.PROTECT, related_name="rates", null=True, blank=True
    )
    rate_micro = models.BigIntegerField(null=True)
    set_at = models.DateTimeField()
    set_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", null=True, blank=True
    )

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(rate_micro__range=(RATE_MIN_MICRO, RATE_MAX_MICRO)) | Q(rate_micro__isnull=True),
                name="marketplace_rate_bounds",
            ),
            models.CheckConstraint(
                condition=Q(rate_micro__isnull=False) | Q(machine__isnull=False), name="marketplace_rate_withdrawn"
            ),
        ]
        indexes = [
            models.Index(fields=["provider", "gpu_model", "machine", "-set_at", "-id"], name="marketplace_rate_current")
        ]

    def __str__(self) -> str:
        return f"{self.rate_micro} from {self.set_at}"

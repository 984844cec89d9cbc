from __future__ import annotations

from django.db import models

from core.models import BaseModel


class GpuClaim(BaseModel):
    """Somebody has this GPU: a job's attempt or a benchmark run. At most one live claim per GPU is a law."""

    class Kind(models.TextChoices):
        JOB = "job"
        BENCHMARK = "benchmark"

    gpu = models.ForeignKey("providers.Gpu", on_delete=models.PROTECT, related_name="claims")
    kind = models.CharField(max_length=12, choices=Kind)
    holder = models.UUIDField()
    live = models.BooleanField(default=True)
    claimed_at = models.DateTimeField()
    released_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name = "GPU claim"
        constraints = [
            models.UniqueConstraint(fields=["gpu"], condition=models.Q(live=True), name="providers_claim_one_live"),
            models.CheckConstraint(
                condition=models.Q(live=True, released_at__isnull=True)
                | models.Q(live=False, released_at__isnull=False),
                name="providers_claim_released",
            ),
        ]
        indexes = [
            models.Index(fields=["holder"], condition=models.Q(live=True), name="providers_claim_holder"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.holder} has {self.gpu_id}"

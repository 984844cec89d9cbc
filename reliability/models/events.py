from __future__ import annotations

from django.db import models

from agent_protocol.reasons import Owner
from core.models import BaseModel


class Incident(BaseModel):
    """Something went wrong, and whose doing it was. Only the provider's own with a weight count as a failed job. Append-only.

    ``source`` names the event once and for all, e.g. ``attempt:<id>``; weight in GPU-seconds, null for what is no job.
    """

    source = models.CharField(max_length=120, unique=True)
    provider = models.ForeignKey("providers.Provider", on_delete=models.PROTECT, related_name="incidents")
    machine = models.ForeignKey("providers.Machine", on_delete=models.PROTECT, related_name="incidents")
    gpu = models.ForeignKey("providers.Gpu", on_delete=models.PROTECT, related_name="incidents", null=True, blank=True)
    reason = models.CharField(max_length=40)
    owner = models.CharField(max_length=12, choices=[(owner.value, owner.value) for owner in Owner])
    weight_seconds = models.BigIntegerField(null=True, blank=True)
    at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["provider", "at"], name="reliability_incident_provider")]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(weight_seconds__isnull=True) | models.Q(weight_seconds__gte=0),
                name="reliability_incident_weight",
            )
        ]

    def __str__(self) -> str:
        return f"{self.reason} ({self.source})"


class Outcome(BaseModel):
    """How a job's attempt ended on a machine. Append-only.

    completed: true, false (the provider's fault), or null (somebody else's doing: no evidence about the provider).
    """

    source = models.CharField(max_length=120, unique=True)
    provider = models.ForeignKey("providers.Provider", on_delete=models.PROTECT, related_name="outcomes")
    machine = models.ForeignKey("providers.Machine", on_delete=models.PROTECT, related_name="outcomes")
    completed = models.BooleanField(null=True)
    gpu_seconds = models.BigIntegerField()
    at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["provider", "at"], name="reliability_outcome_provider")]
        constraints = [models.CheckConstraint(condition=models.Q(gpu_seconds__gte=0), name="reliability_outcome_gpu_s")]

    def __str__(self) -> str:
        return f"{self.completed} ({self.source})"

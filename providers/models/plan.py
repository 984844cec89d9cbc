from __future__ import annotations

from django.db import models

from core.models import BaseModel


class PlanItem(BaseModel):
    """One thing a machine is to do now (wire: agent_protocol.messages.PlanItem). What leaves the plan is to stop."""

    class Kind(models.TextChoices):
        ATTEMPT = "attempt"
        BENCHMARK = "benchmark"

    machine = models.ForeignKey("providers.Machine", on_delete=models.PROTECT, related_name="plan_items")
    kind = models.CharField(max_length=12, choices=Kind)
    key = models.UUIDField()
    body = models.JSONField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["machine", "kind", "key"], name="providers_planitem_once")]

    def __str__(self) -> str:
        return f"{self.kind} {self.key} on {self.machine_id}"

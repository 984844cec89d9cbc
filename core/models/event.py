from __future__ import annotations

from django.db import models


class StatusEvent(models.Model):
    """One move of one status: what, from, to, who, why, when. Append-only (a trigger refuses UPDATE and DELETE)."""

    id = models.BigAutoField(primary_key=True)
    subject_type = models.CharField(max_length=64)
    subject_id = models.UUIDField()
    field = models.CharField(max_length=32, default="status")
    old = models.CharField(max_length=32)
    new = models.CharField(max_length=32)
    actor = models.CharField(max_length=80)
    reason = models.TextField(blank=True)
    at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["subject_type", "subject_id", "id"], name="core_statusevent_subject")]

    def __str__(self) -> str:
        return f"{self.subject_type} {self.subject_id}: {self.old} → {self.new}"

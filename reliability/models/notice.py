from __future__ import annotations

from django.db import models

from core.models import BaseModel


class OfflineNotice(BaseModel):
    """One letter to a provider about machines that went offline: one fault, one letter, however many machines it hit."""

    provider = models.ForeignKey("providers.Provider", on_delete=models.PROTECT, related_name="offline_notices")
    sent_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"notice {self.pk}"


class OfflineNoticeMachine(models.Model):
    """A machine in a notice, by the silence it is about. A silence is told once (a law).

    ``closed_at``: its return was told, or the silence is over in a way nobody need be told (retired, offline anew).
    """

    id = models.BigAutoField(primary_key=True)
    notice = models.ForeignKey(OfflineNotice, on_delete=models.PROTECT, related_name="machines")
    machine = models.ForeignKey("providers.Machine", on_delete=models.PROTECT, related_name="+")
    offline_since = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["machine", "offline_since"], name="reliability_notice_once"),
        ]
        indexes = [
            models.Index(
                fields=["machine"], condition=models.Q(closed_at__isnull=True), name="reliability_notice_open"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.machine_id} offline since {self.offline_since}"

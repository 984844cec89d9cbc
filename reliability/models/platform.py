from __future__ import annotations

from django.db import models


class PlatformPulse(models.Model):
    """One row: when we last looked at the fleet, and the epoch that Valkey's last-seen data belongs to.

    A pulse that is old, or an epoch that Valkey does not carry, means that *we* were away: silence proves nothing then.
    """

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    epoch = models.UUIDField()
    epoch_started_at = models.DateTimeField()
    swept_at = models.DateTimeField()

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="reliability_pulse_one_row")]

    def __str__(self) -> str:
        return f"epoch {self.epoch}"


class PlatformOutage(models.Model):
    """The platform could not hear anybody; taken out of everybody's declared time. Append-only."""

    id = models.BigAutoField(primary_key=True)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    cause = models.CharField(max_length=40)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(ended_at__gt=models.F("started_at")), name="reliability_outage_forward"
            )
        ]
        indexes = [models.Index(fields=["ended_at"], name="reliability_outage_end")]

    def __str__(self) -> str:
        return f"{self.started_at} – {self.ended_at}"

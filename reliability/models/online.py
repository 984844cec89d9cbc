from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class State(models.TextChoices):
    """``never`` is said of a machine that has no row: it has not been heard of yet."""

    ONLINE = "online", _("Online")
    SUSPECT = "suspect", _("Not heard of for a moment")
    OFFLINE = "offline", _("Offline")
    NEVER = "never", _("Never seen")


class MachineHealth(models.Model):
    """The present of a machine, flushed from Valkey. ``offline_due_at`` is the instant at which silence makes it offline."""

    machine = models.OneToOneField(
        "providers.Machine", on_delete=models.PROTECT, primary_key=True, related_name="health"
    )
    state = models.CharField(max_length=8, choices=State)
    state_since = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    offline_due_at = models.DateTimeField()
    boot_id = models.CharField(max_length=64)
    telemetry = models.JSONField(default=list)

    class Meta:
        verbose_name_plural = "machine health"
        indexes = [
            models.Index(
                fields=["offline_due_at"],
                condition=models.Q(state__in=["online", "suspect"]),
                name="reliability_health_due",
            )
        ]

    def __str__(self) -> str:
        return f"{self.machine_id} is {self.state}"


class OnlineInterval(models.Model):
    """A machine was heard of from … to its last heartbeat. Open while it is not offline; at most one open per machine."""

    id = models.BigAutoField(primary_key=True)
    machine = models.ForeignKey("providers.Machine", on_delete=models.PROTECT, related_name="online_intervals")
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["machine"], condition=models.Q(ended_at__isnull=True), name="reliability_interval_one_open"
            ),
            models.CheckConstraint(
                condition=models.Q(ended_at__isnull=True) | models.Q(ended_at__gte=models.F("started_at")),
                name="reliability_interval_forward",
            ),
        ]
        indexes = [models.Index(fields=["machine", "started_at"], name="reliability_interval_machine")]

    def __str__(self) -> str:
        return f"{self.machine_id} {self.started_at} – {self.ended_at or '…'}"


class Flip(models.Model):
    """A machine changed state: ``at`` is when it did, ``noticed_at`` when we saw it. Append-only."""

    id = models.BigAutoField(primary_key=True)
    machine = models.ForeignKey("providers.Machine", on_delete=models.PROTECT, related_name="flips")
    to = models.CharField(max_length=8, choices=State)
    at = models.DateTimeField()
    noticed_at = models.DateTimeField()
    rebooted = models.BooleanField(null=True)
    """Back online: in another boot than before? Null for every other move, and where there was no before."""

    class Meta:
        indexes = [models.Index(fields=["machine", "-at"], name="reliability_flip_machine")]

    def __str__(self) -> str:
        return f"{self.machine_id} → {self.to}"

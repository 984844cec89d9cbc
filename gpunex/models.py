"""The tables of the composition root: what kind of installation this is, and which events of agents were dealt with."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _


class EventSeen(models.Model):
    """One event of an agent, dealt with once; refused ones stay as evidence. Kept for 14 days.

    Partitioned by ``occurred_at``: the agent's own instant, the same in every repetition, so that "once" is a constraint.
    """

    KEEP_DAYS = 14

    pk = models.CompositePrimaryKey("machine_id", "event_id", "occurred_at")
    machine_id = models.UUIDField()
    event_id = models.UUIDField()
    occurred_at = models.DateTimeField()
    seen_at = models.DateTimeField()
    kind = models.CharField(max_length=40)
    outcome = models.CharField(max_length=64)
    """``accepted``, or the code of the refusal."""

    class Meta:
        verbose_name = _("event of an agent")
        verbose_name_plural = _("events of agents")

    def __str__(self) -> str:
        return f"{self.kind} {self.event_id}: {self.outcome}"


class Installation(models.Model):
    """One row: what this database was made for. A demo never starts on anything but its own database."""

    class Kind(models.TextChoices):
        DEMO = "demo", _("Demo")
        PLAIN = "plain", _("Plain")

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    kind = models.CharField(max_length=8, choices=Kind)
    genesis_hash = models.CharField(max_length=64, blank=True)
    """Of the Solana network whose money the ledger holds."""
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.CheckConstraint(condition=models.Q(id=1), name="gpunex_installation_one")]

    def __str__(self) -> str:
        return self.kind

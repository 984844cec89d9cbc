from __future__ import annotations

from django.db import models


class Slot(models.Model):
    """A period that a periodic verb has claimed, so that two beats are harmless."""

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(max_length=80)
    slot = models.CharField(max_length=40)
    claimed_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["name", "slot"], name="core_slot_once")]

    def __str__(self) -> str:
        return f"{self.name} {self.slot}"

from __future__ import annotations

from django.db import models

from core.models import BaseModel


class ChainMatch(BaseModel):
    """A look at every payout memo that the hot wallet's history holds, against the books. Written once.

    After a restore nothing is signed before one has left nothing ``open`` (the switch's law sees to it).
    """

    actor = models.CharField(max_length=80)
    through_slot = models.BigIntegerField()
    matched = models.PositiveIntegerField()
    """Payments that the books know as they are."""
    open = models.PositiveIntegerField()
    """Payments that the books do not know, or know otherwise."""
    findings = models.JSONField()
    """One per payment that is open or on its way: see ``billing.services.payouts.restore``."""

    class Meta:
        verbose_name_plural = "chain matches"

    def __str__(self) -> str:
        return f"{self.matched} matched, {self.open} open"

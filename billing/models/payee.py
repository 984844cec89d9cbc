from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from accounts.models import Party
from billing.models.destination import Destination
from core.models import BaseModel


class DestinationFreeze(BaseModel):
    """Somebody whom we wrote about a new destination said that it was not them: the party is paid nothing until staff clear it.

    ``destination`` is the change that the letter was about. One open freeze per party.
    """

    party = models.ForeignKey(Party, on_delete=models.PROTECT, related_name="destination_freezes")
    destination = models.ForeignKey(Destination, on_delete=models.PROTECT, related_name="freezes")
    cleared_at = models.DateTimeField(null=True)
    cleared_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="freezes_cleared"
    )
    reason = models.CharField(max_length=200, blank=True)
    """Why it was cleared, in words for staff."""

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["party"], condition=Q(cleared_at__isnull=True), name="billing_freeze_one_open"
            ),
            models.CheckConstraint(
                condition=Q(cleared_at__isnull=True, cleared_by__isnull=True, reason="")
                | Q(cleared_at__isnull=False, cleared_by__isnull=False) & ~Q(reason=""),
                name="billing_freeze_cleared_by_somebody",
            ),
        ]

    def __str__(self) -> str:
        return f"freeze of {self.party_id}" + ("" if self.cleared_at is None else ", cleared")


class PayoutHold(BaseModel):
    """Somebody above billing says that a party is paid nothing for now (``source``: ``provider:<id>``)."""

    party = models.ForeignKey(Party, on_delete=models.PROTECT, related_name="payout_holds")
    source = models.CharField(max_length=80)
    reason = models.CharField(max_length=200)
    released_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["source"], condition=Q(released_at__isnull=True), name="billing_payouthold_one_open"
            ),
        ]
        indexes = [
            models.Index(fields=["party"], name="billing_payouthold_open", condition=Q(released_at__isnull=True)),
        ]

    def __str__(self) -> str:
        return f"{self.source}: {self.reason}"

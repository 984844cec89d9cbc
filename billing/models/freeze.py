from __future__ import annotations

from django.db import models
from django.db.models import Q

from accounts.models import Party
from core.models import BaseModel


class EarningFreeze(BaseModel):
    """The earnings of one rental stay where they are while somebody decides about them (a dispute).

    Pending lines do not mature (a trigger refuses it); what had matured is set aside by the hold of the same ``source``.
    ``rental_id`` is a label, as on earning lines.
    """

    source = models.CharField(max_length=160, unique=True)
    provider = models.ForeignKey(Party, on_delete=models.PROTECT, related_name="earning_freezes")
    rental_id = models.UUIDField()
    thawed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["rental_id"], condition=Q(thawed_at__isnull=True), name="billing_earningfreeze_one_open"
            )
        ]

    def __str__(self) -> str:
        return self.source

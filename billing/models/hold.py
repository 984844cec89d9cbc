from __future__ import annotations

from django.db import models
from django.db.models import Q

from billing.models.account import Account
from core.models import BaseModel


class Hold(BaseModel):
    """Money set aside on a live account for something that is going on. ``held`` of the account = Σ of its open holds.

    ``amount_micro`` is what is set aside now: usage posted against the hold takes from it, an extension fills it up.
    """

    class State(models.TextChoices):
        OPEN = "open"
        CAPTURED = "captured"
        RELEASED = "released"

    source = models.CharField(max_length=160, unique=True)
    account = models.ForeignKey(Account, on_delete=models.PROTECT, related_name="holds")
    placed_micro = models.BigIntegerField()
    amount_micro = models.BigIntegerField()
    captured_micro = models.BigIntegerField(default=0)
    state = models.CharField(max_length=16, choices=State, default=State.OPEN)
    closed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(placed_micro__gt=0, amount_micro__gte=0, captured_micro__gte=0),
                name="billing_hold_amounts_not_negative",
            )
        ]
        indexes = [models.Index(fields=["account"], name="billing_hold_open", condition=Q(state="open"))]

    def __str__(self) -> str:
        return self.source

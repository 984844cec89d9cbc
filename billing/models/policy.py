from __future__ import annotations

from django.db import models
from django.db.models import Q


class FeeRate(models.Model):
    """The platform's share in basis points, from an instant on. What held when can always be told."""

    id = models.BigAutoField(primary_key=True)
    bps = models.PositiveIntegerField()
    valid_from = models.DateTimeField(unique=True)
    set_by = models.CharField(max_length=80)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(bps__lte=10_000), name="billing_feerate_at_most_all")]

    def __str__(self) -> str:
        return f"{self.bps} bps from {self.valid_from}"


class PolicyRow(models.Model):
    """One business number from an instant on; without a row the constant in ``billing.policies`` holds."""

    id = models.BigAutoField(primary_key=True)
    name = models.CharField(max_length=48)
    value = models.BigIntegerField()
    valid_from = models.DateTimeField()
    set_by = models.CharField(max_length=80)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["name", "valid_from"], name="billing_policyrow_once"),
            models.CheckConstraint(condition=Q(value__gte=0), name="billing_policyrow_not_negative"),
        ]

    def __str__(self) -> str:
        return f"{self.name} = {self.value} from {self.valid_from}"

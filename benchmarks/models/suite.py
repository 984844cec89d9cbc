from __future__ import annotations

from django.db import models

from benchmarks.verification import Limits
from core.models import BaseModel


class Suite(BaseModel):
    """One version of the measurements. Results compare only inside a version; the newest valid one is used."""

    version = models.PositiveIntegerField(unique=True)
    rounds = models.PositiveIntegerField()
    """Chained products in the challenge."""
    time_limit_s = models.PositiveIntegerField()
    valid_from = models.DateTimeField()

    def __str__(self) -> str:
        return f"suite {self.version}"


class Threshold(BaseModel):
    """One limit from an instant on. An operator changes a limit by adding a row; rows themselves never change."""

    NAMES = [(name, name) for name in Limits.__dataclass_fields__]

    suite = models.ForeignKey(Suite, on_delete=models.PROTECT, related_name="thresholds")
    name = models.CharField(max_length=40, choices=NAMES)
    value = models.DecimalField(max_digits=12, decimal_places=4)
    valid_from = models.DateTimeField()
    reason = models.CharField(max_length=200)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["suite", "name", "valid_from"], name="benchmarks_threshold_once"),
            models.CheckConstraint(condition=models.Q(value__gt=0), name="benchmarks_threshold_positive"),
        ]

    def __str__(self) -> str:
        return f"{self.name} = {self.value}"

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import F, Q

from core.models import BaseModel


class EurRate(BaseModel):
    """A reference rate of the European Central Bank: entered by one person, confirmed by another, then never changed.

    ``reference_micro``: micro-dollars per euro. ``margin_bps`` is what a payee gets less of it (see ``billing.euros``).
    """

    reference_micro = models.BigIntegerField()
    margin_bps = models.PositiveIntegerField()
    source = models.CharField(max_length=120)
    published_at = models.DateTimeField()
    entered_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="eur_rates_entered")
    confirmed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="eur_rates_confirmed"
    )
    confirmed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(reference_micro__gt=0, margin_bps__lt=10_000), name="billing_eurrate_positive"
            ),
            models.CheckConstraint(
                condition=Q(confirmed_by__isnull=True, confirmed_at__isnull=True)
                | Q(confirmed_by__isnull=False, confirmed_at__isnull=False) & ~Q(confirmed_by=F("entered_by")),
                name="billing_eurrate_two_people",
            ),
        ]
        indexes = [models.Index(fields=["-confirmed_at"], name="billing_eurrate_latest")]

    def __str__(self) -> str:
        return f"{self.reference_micro} micro-dollars per euro, {self.published_at:%Y-%m-%d}"

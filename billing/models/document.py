from __future__ import annotations

from datetime import date, timedelta

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from accounts.models import Party
from billing.models.account import USDC
from billing.models.deposit import Deposit
from billing.models.payout import Payout
from core.models import BaseModel


class DocumentSeries(models.Model):
    """One run of document numbers without a gap. ``last`` is moved by the trigger on documents and by nothing else."""

    name = models.CharField(max_length=16, primary_key=True)
    last = models.PositiveIntegerField(default=0)

    class Meta:
        verbose_name_plural = "document series"

    def __str__(self) -> str:
        return self.name


class Document(BaseModel):
    """A receipt or a statement, as it was issued: ``facts`` never change, files are drawn from them (billing.documents).

    ``facts["lines"]`` add up to ``total_micro``, which is the deposit's or the payout's amount; the database sees to both
    and to the number, the next one of its series.
    """

    class Kind(models.TextChoices):
        RECEIPT = "receipt", _("Receipt")
        MONTHLY = "monthly", _("Monthly statement")
        PAYOUT = "payout", _("Payout statement")

    kind = models.CharField(max_length=8, choices=Kind)
    party = models.ForeignKey(Party, on_delete=models.PROTECT, related_name="documents", db_index=False)
    series = models.ForeignKey(DocumentSeries, on_delete=models.PROTECT, related_name="documents", db_index=False)
    number = models.PositiveIntegerField()
    issued_at = models.DateTimeField()
    deposit = models.OneToOneField(Deposit, on_delete=models.PROTECT, null=True, related_name="receipt")
    payout = models.OneToOneField(Payout, on_delete=models.PROTECT, null=True, related_name="statement")
    period_start = models.DateField(null=True)
    period_end = models.DateField(null=True)
    """The first day after the period (UTC)."""
    asset = models.CharField(max_length=8, default=USDC)
    total_micro = models.BigIntegerField()
    facts = models.JSONField()
    sha256 = models.BinaryField(max_length=32)
    """Of the facts as canonical JSON; looked at whenever a file is drawn."""

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["series", "number"], name="billing_document_number_once"),
            models.UniqueConstraint(
                fields=["party", "period_start"], condition=Q(kind="monthly"), name="billing_document_month_once"
            ),
            models.CheckConstraint(
                condition=Q(kind="receipt", deposit__isnull=False, payout__isnull=True, period_start__isnull=True)
                | Q(kind="payout", payout__isnull=False, deposit__isnull=True, period_start__isnull=False)
                | Q(kind="monthly", payout__isnull=True, deposit__isnull=True, period_start__isnull=False),
                name="billing_document_has_its_subject",
            ),
            models.CheckConstraint(
                condition=Q(period_start__isnull=True, period_end__isnull=True)
                | Q(period_end__gt=models.F("period_start")),
                name="billing_document_period",
            ),
        ]
        indexes = [models.Index(fields=["party", "-issued_at"], name="billing_document_of_party")]

    def __str__(self) -> str:
        return self.label

    @property
    def last_day(self) -> date | None:
        """The last day of the period."""
        return self.period_end - timedelta(days=1) if self.period_end else None

    @property
    def label(self) -> str:
        """The number as it is printed: ``R-2026-000042``."""
        return f"{self.series_id}-{self.number:06d}"

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from accounts.models import Party
from core.models import BaseModel


class SpendLimit(BaseModel):
    """The most a customer wants to spend within a period, from ``created_at`` on; the newest row of a period counts.

    ``amount_micro`` null: none any more. Append-only, so that it is known who allowed what, and when. Docs: money.md.
    """

    class Period(models.TextChoices):
        DAY = "day", _("24 hours")
        MONTH = "month", _("Calendar month (UTC)")

    party = models.ForeignKey(Party, on_delete=models.PROTECT, related_name="spend_limits", db_index=False)
    period = models.CharField(max_length=8, choices=Period)
    amount_micro = models.BigIntegerField(null=True)
    set_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(amount_micro__isnull=True) | Q(amount_micro__gt=0), name="billing_spendlimit_positive"
            ),
            models.CheckConstraint(condition=Q(period__in=["day", "month"]), name="billing_spendlimit_period"),
        ]
        indexes = [models.Index(fields=["party", "period", "-created_at", "-id"], name="billing_spendlimit_newest")]

    def __str__(self) -> str:
        return f"{self.party_id} {self.period}: {self.amount_micro}"


class SpendNotice(BaseModel):
    """A mail that said how much of a limit is spent: ``percent`` is 80 or 100. Append-only.

    ``period_start``: the month's first instant; for the rolling 24 hours, which begin anew all the time, when it was sent.
    """

    limit = models.ForeignKey(SpendLimit, on_delete=models.PROTECT, related_name="notices", db_index=False)
    percent = models.PositiveSmallIntegerField()
    period_start = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["limit", "percent", "period_start"], name="billing_spendnotice_once")
        ]

    def __str__(self) -> str:
        return f"{self.percent} % of {self.limit_id}"

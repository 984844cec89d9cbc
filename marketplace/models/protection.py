from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from core.models import BaseModel


class LowBalance(models.Model):
    """A customer who was told that the money runs out, and has not paid in since: the row is the memory of that mail.

    It goes when the balance lasts again, so the mail is sent once per fall.
    """

    customer = models.OneToOneField("accounts.Party", on_delete=models.PROTECT, primary_key=True, related_name="+")
    told_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.customer_id} since {self.told_at}"


class Dispute(BaseModel):
    """A customer says that an attempt should not have cost what it did; staff decide. Once per attempt.

    ``disputed_micro`` is what the attempt came to when it was disputed: charged, less the service credit. ``refund_micro`` is
    what was given back: null while it is open, 0 when refused. ``words`` are the customer's, for staff only; ``reason`` is
    the decision's, for both sides.
    """

    class Kind(models.TextChoices):
        NOT_WORKING = "not_working", _("The GPU did not work")
        NOT_AS_LISTED = "not_as_listed", _("The machine was not what the listing said")
        TOO_SLOW = "too_slow", _("Much slower than it should have been")
        TOO_MUCH = "too_much", _("More time was charged than it ran")
        OTHER = "other", _("Something else")

    class Status(models.TextChoices):
        OPEN = "open", _("Open")
        GRANTED = "granted", _("Granted")
        REFUSED = "refused", _("Refused")

    attempt = models.OneToOneField("marketplace.Attempt", on_delete=models.PROTECT, related_name="dispute")
    customer = models.ForeignKey("accounts.Party", on_delete=models.PROTECT, related_name="disputes")
    provider = models.ForeignKey("providers.Provider", on_delete=models.PROTECT, related_name="disputes")
    kind = models.CharField(max_length=16, choices=Kind)
    words = models.TextField(max_length=2000)
    disputed_micro = models.BigIntegerField()
    opened_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    status = models.CharField(max_length=8, choices=Status, default=Status.OPEN)
    decided_at = models.DateTimeField(null=True)
    decided_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, null=True, related_name="+")
    reason = models.TextField(max_length=2000, blank=True, default="")
    refund_micro = models.BigIntegerField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(disputed_micro__gt=0), name="marketplace_dispute_of_something"),
            models.CheckConstraint(
                condition=Q(status="open", decided_at__isnull=True, refund_micro__isnull=True)
                | Q(status="refused", decided_at__isnull=False, refund_micro=0) & ~Q(reason="")
                | Q(
                    status="granted",
                    decided_at__isnull=False,
                    refund_micro__gt=0,
                    refund_micro__lte=F("disputed_micro"),
                )
                & ~Q(reason=""),
                name="marketplace_dispute_decided",
            ),
        ]
        indexes = [
            models.Index(fields=["created_at"], condition=Q(status="open"), name="marketplace_dispute_open"),
            models.Index(fields=["provider", "-id"], name="marketplace_dispute_provider"),
        ]

    def __str__(self) -> str:
        return f"dispute of {self.attempt_id}"

    @property
    def source(self) -> str:
        """The name of its freeze, its hold and its transfer in billing."""
        return f"{DISPUTE_PREFIX}{self.attempt_id}"

    @property
    def partly(self) -> bool:
        return bool(self.refund_micro) and self.refund_micro != self.disputed_micro


DISPUTE_PREFIX = "dispute:attempt:"
"""How freezes, holds and transfers of disputes are named in billing: the attempt's id follows."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from core.models import BaseModel
from providers.models.application import Tier


class Provider(BaseModel):
    """A party that may offer machines. ``country`` is ISO-2, ``region`` one of the nine in providers.places."""

    class Status(models.TextChoices):
        ACTIVE = "active", _("Active")
        SUSPENDED = "suspended", _("Suspended")
        CLOSED = "closed", _("Closed")

    party = models.OneToOneField("accounts.Party", on_delete=models.PROTECT, related_name="provider")
    application = models.ForeignKey("providers.Application", on_delete=models.PROTECT, related_name="+")
    """The latest approved one; the approved groups are those of all approved applications of the party."""
    tier = models.CharField(max_length=12, choices=Tier)
    status = models.CharField(max_length=12, choices=Status, default=Status.ACTIVE)
    country = models.CharField(max_length=2)
    region = models.CharField(max_length=24)
    commitment_months = models.PositiveSmallIntegerField(default=0)
    approved_machines = models.PositiveIntegerField()
    joined_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"provider {self.pk}"

    @property
    def display_name(self) -> str:
        """What customers see: the party's handle, never a name."""
        return self.party.handle


class EnrolmentToken(BaseModel):
    """Lets ``uses_left`` more machines join until ``expires_at``. The secret was shown once; this is its SHA-256."""

    provider = models.ForeignKey(Provider, on_delete=models.PROTECT, related_name="enrolment_tokens")
    secret_hash = models.BinaryField(max_length=32, unique=True)
    expires_at = models.DateTimeField()
    uses = models.PositiveIntegerField()
    uses_left = models.PositiveIntegerField()
    revoked_at = models.DateTimeField(null=True, blank=True)
    machine = models.ForeignKey("providers.Machine", on_delete=models.PROTECT, related_name="+", null=True, blank=True)
    """The machine that enrols anew with it; null: any host becomes a new machine."""
    issued_by = models.CharField(max_length=80)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(uses_left__gte=0, uses_left__lte=models.F("uses")), name="providers_token_uses"
            ),
        ]

    def __str__(self) -> str:
        return f"token {self.pk}"

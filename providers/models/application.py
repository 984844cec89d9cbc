from __future__ import annotations

from decimal import Decimal

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from core.models import BaseModel
from providers.states import APPLICATION_OPEN


class Tier(models.TextChoices):
    ENTERPRISE = "enterprise", _("Enterprise")
    COMMUNITY = "community", _("Community")


class Application(BaseModel):
    """A party's request to provide GPUs. A draft may have gaps; what was submitted has none.

    Once submitted the applicant may change only ``requested_sections``, and only while more information is asked for.
    """

    class Status(models.TextChoices):
        DRAFT = "draft", _("Draft")
        SUBMITTED = "submitted", _("Submitted")
        IN_REVIEW = "in_review", _("In review")
        MORE_INFORMATION = "more_information", _("More information needed")
        APPROVED = "approved", _("Approved")
        REJECTED = "rejected", _("Rejected")
        WITHDRAWN = "withdrawn", _("Withdrawn")

    class Ups(models.TextChoices):
        NONE = "none", _("No UPS")
        SOME = "some", _("Some machines")
        ALL = "all", _("All machines")

    class Commitment(models.IntegerChoices):
        NONE = 0, _("No commitment")
        THREE = 3, _("3 months")
        SIX = 6, _("6 months")
        TWELVE = 12, _("12 months")

    class Section(models.TextChoices):
        """What a reviewer can reopen."""

        CONTACT = "contact", _("Contact and organisation")
        GPUS = "gpus", _("GPUs")
        INFRASTRUCTURE = "infrastructure", _("Infrastructure")

    party = models.ForeignKey("accounts.Party", on_delete=models.PROTECT, related_name="applications")
    applicant = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    status = models.CharField(max_length=20, choices=Status, default=Status.DRAFT)
    legal_name = models.CharField(_("Full legal name"), max_length=120, blank=True)
    email = models.EmailField(_("E-mail"), blank=True)
    company = models.CharField(_("Company"), max_length=120, blank=True)
    ups = models.CharField(_("UPS"), max_length=8, choices=Ups, blank=True)
    commitment_months = models.PositiveSmallIntegerField(_("Commitment"), choices=Commitment, null=True, blank=True)
    maintenance_note = models.TextField(_("Maintenance note"), max_length=2000, blank=True)
    tier = models.CharField(max_length=12, choices=Tier, blank=True)
    """Decided at review; empty until then."""
    question = models.TextField(blank=True)
    requested_sections = models.JSONField(default=list, blank=True)
    answer = models.TextField(max_length=2000, blank=True)
    reviewed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", null=True, blank=True
    )
    decision_reason = models.TextField(blank=True)
    updated_at = models.DateTimeField()
    submitted_at = models.DateTimeField(null=True, blank=True)
    decided_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["party"], condition=models.Q(status__in=APPLICATION_OPEN), name="providers_application_one_open"
            ),
            models.CheckConstraint(
                condition=~models.Q(status="approved") | ~models.Q(tier=""), name="providers_application_tier"
            ),
        ]
        indexes = [models.Index(fields=["status", "submitted_at"], name="providers_application_queue")]

    def __str__(self) -> str:
        return f"{self.legal_name or self.party_id} ({self.status})"


class ApplicationGpuGroup(BaseModel):
    """Cards of one model in like hosts at one place. Speeds are measured ones, in Mbit/s; null is "not given yet"."""

    application = models.ForeignKey(Application, on_delete=models.CASCADE, related_name="groups")
    position = models.PositiveSmallIntegerField()
    gpu_model = models.ForeignKey(
        "providers.GpuModel", on_delete=models.PROTECT, related_name="+", null=True, blank=True
    )
    other = models.BooleanField(default=False)
    other_model = models.CharField(max_length=80, blank=True)
    """Free text where the catalogue has no such card (``other``); judged case by case."""
    quantity = models.PositiveIntegerField(null=True, blank=True)
    host_memory_gb = models.PositiveIntegerField(null=True, blank=True)
    upload_mbps = models.PositiveIntegerField(null=True, blank=True)
    download_mbps = models.PositiveIntegerField(null=True, blank=True)
    always_on = models.BooleanField(default=True)
    schedule_zone = models.CharField(max_length=64, blank=True)
    windows = models.JSONField(default=list, blank=True)
    """``[{"days": [0..6], "start": "HH:MM", "end": "HH:MM"}]``, Monday is 0; see providers.schedules."""
    city = models.CharField(max_length=80, blank=True)
    country = models.CharField(max_length=2, blank=True)
    region = models.CharField(max_length=80, blank=True)
    """The data centre or its region, as the applicant calls it."""

    class Meta:
        ordering = ["position"]
        constraints = [
            models.UniqueConstraint(fields=["application", "position"], name="providers_group_position"),
            models.CheckConstraint(
                condition=models.Q(quantity__isnull=True) | models.Q(quantity__range=(1, 1024)),
                name="providers_group_quantity",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.quantity} × {self.other_model or self.gpu_model_id}"

    @property
    def upload_gbps(self) -> Decimal | None:
        return None if self.upload_mbps is None else Decimal(self.upload_mbps) / 1000

    @property
    def download_gbps(self) -> Decimal | None:
        return None if self.download_mbps is None else Decimal(self.download_mbps) / 1000

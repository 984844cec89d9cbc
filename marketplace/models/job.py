from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from core.models import BaseModel


class Job(BaseModel):
    """What a customer wants run. ``max_rate_micro`` is the most they pay per GPU-hour (a chosen listing: the rate seen).

    ``secrets`` are sealed (marketplace.jobsecrets), write-only, and gone when the job ends; ``private_image`` (a login was
    among them) and ``with_secrets`` (a part of the environment) stay, so that whoever runs it again is asked for them.
    ``queued_at`` is since when it waits, anew after an attempt that ran; its place in the queue is by ``created_at``.
    ``waiting`` says what a queued job waits for (outcomes.WAITING).
    """

    class Status(models.TextChoices):
        QUEUED = "queued", _("Queued")
        ACTIVE = "active", _("Active")
        SUCCEEDED = "succeeded", _("Succeeded")
        FAILED = "failed", _("Failed")
        CANCELLED = "cancelled", _("Cancelled")
        LOST = "lost", _("Lost")

    customer = models.ForeignKey("accounts.Party", on_delete=models.PROTECT, related_name="jobs")
    submitted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", null=True, blank=True
    )
    name = models.CharField(max_length=80, blank=True)
    status = models.CharField(max_length=12, choices=Status, default=Status.QUEUED)
    reason = models.CharField(max_length=32, blank=True, default="")
    waiting = models.CharField(max_length=16, blank=True, default="")
    image = models.CharField(max_length=600)
    command = models.JSONField(default=list)
    environment = models.JSONField(default=dict)
    secrets = models.BinaryField(null=True, blank=True)
    private_image = models.BooleanField(default=False, db_default=False)
    with_secrets = models.BooleanField(default=False, db_default=False)
    gpu_count = models.PositiveSmallIntegerField()
    gpu_model = models.ForeignKey(
        "providers.GpuModel", on_delete=models.PROTECT, related_name="+", null=True, blank=True
    )
    listing = models.ForeignKey(
        "marketplace.Listing", on_delete=models.PROTECT, related_name="jobs", null=True, blank=True
    )
    max_rate_micro = models.BigIntegerField()
    min_reliability = models.DecimalField(max_digits=6, decimal_places=3, null=True, blank=True)
    region = models.CharField(max_length=24, blank=True)
    country = models.CharField(max_length=2, blank=True)
    disk_gb = models.PositiveIntegerField()
    time_limit_s = models.PositiveIntegerField()
    disconnect_grace_s = models.PositiveIntegerField()
    max_attempts = models.PositiveSmallIntegerField()
    rerun_of = models.ForeignKey("self", on_delete=models.PROTECT, related_name="reruns", null=True, blank=True)
    queued_at = models.DateTimeField()
    cancel_requested_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=["queued", "active"], ended_at__isnull=True)
                | Q(status__in=["succeeded", "failed", "cancelled", "lost"], ended_at__isnull=False),
                name="marketplace_job_ended",
            ),
            models.CheckConstraint(
                condition=Q(status__in=["queued", "active"]) | Q(secrets__isnull=True),
                name="marketplace_job_secrets_gone",
            ),
        ]
        indexes = [
            models.Index(fields=["created_at", "id"], condition=Q(status="queued"), name="marketplace_job_queue"),
            models.Index(fields=["customer", "-id"], name="marketplace_job_customer"),
        ]

    def __str__(self) -> str:
        return f"job {self.pk}"

    @property
    def ended(self) -> bool:
        return self.ended_at is not None

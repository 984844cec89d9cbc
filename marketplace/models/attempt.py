from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from core.models import BaseModel


class Attempt(BaseModel):
    """One try of a job on one machine (its id is the holder of the GPU claims and the key of the plan item).

    ``token_hash`` fences it: a report under another token is kept as evidence and moves nothing. ``lease_until`` is when
    a sweeper acts if nothing is heard. ``boot_id`` is the machine's when it was placed there, ``confirmed_at`` and
    ``confirmed_elapsed_s`` the last accepted evidence that it ran under it. ``secrets_sent_at`` is when the job's secrets
    were handed out, which happens once. ``kept_gpus`` says that its GPUs stay claimed after the end until the machine
    confirms the stop.
    """

    class Status(models.TextChoices):
        OFFERED = "offered", _("Offered")
        PULLING = "pulling", _("Pulling image")
        STARTING = "starting", _("Starting")
        RUNNING = "running", _("Running")
        STOPPING = "stopping", _("Stopping")
        ENDED = "ended", _("Ended")

    job = models.ForeignKey("marketplace.Job", on_delete=models.PROTECT, related_name="attempts")
    number = models.PositiveSmallIntegerField()
    machine = models.ForeignKey("providers.Machine", on_delete=models.PROTECT, related_name="attempts")
    provider = models.ForeignKey("providers.Provider", on_delete=models.PROTECT, related_name="attempts")
    status = models.CharField(max_length=12, choices=Status, default=Status.OFFERED)
    token_hash = models.BinaryField(max_length=32)
    boot_id = models.CharField(max_length=64, blank=True)
    lease_until = models.DateTimeField(null=True)
    secrets_sent_at = models.DateTimeField(null=True)
    taken_up_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    confirmed_at = models.DateTimeField(null=True)
    confirmed_elapsed_s = models.PositiveBigIntegerField(null=True)
    stop_requested_at = models.DateTimeField(null=True)
    stop_reason = models.CharField(max_length=32, blank=True, default="")
    ended_at = models.DateTimeField(null=True)
    reason = models.CharField(max_length=32, blank=True, default="")
    exit_code = models.SmallIntegerField(null=True)
    message_code = models.CharField(max_length=64, blank=True, default="")
    kept_gpus = models.BooleanField(default=False)
    log_bytes = models.PositiveBigIntegerField(default=0)
    log_dropped = models.BooleanField(default=False)
    log_final = models.BooleanField(default=False)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "number"], name="marketplace_attempt_number"),
            models.UniqueConstraint(fields=["job"], condition=~Q(status="ended"), name="marketplace_attempt_one_live"),
            models.CheckConstraint(
                condition=Q(status="ended", ended_at__isnull=False) & ~Q(reason="")
                | ~Q(status="ended") & Q(ended_at__isnull=True),
                name="marketplace_attempt_ended",
            ),
        ]
        indexes = [
            models.Index(fields=["lease_until"], condition=~Q(status="ended"), name="marketplace_attempt_lease"),
            models.Index(fields=["machine"], condition=~Q(status="ended"), name="marketplace_attempt_machine"),
            models.Index(fields=["machine"], condition=Q(kept_gpus=True), name="marketplace_attempt_kept"),
        ]

    def __str__(self) -> str:
        return f"attempt {self.number} of {self.job_id}"


class AttemptEvidence(models.Model):
    """A report that was refused (stale token, other boot, after the end): it moved nothing and is kept. Append-only."""

    id = models.BigAutoField(primary_key=True)
    attempt = models.ForeignKey(Attempt, on_delete=models.PROTECT, related_name="evidence")
    machine = models.ForeignKey("providers.Machine", on_delete=models.PROTECT, related_name="+")
    code = models.CharField(max_length=32)
    boot_id = models.CharField(max_length=64)
    report = models.JSONField()
    """The report without its token."""
    received_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "attempt evidence"

    def __str__(self) -> str:
        return f"{self.code} on {self.attempt_id}"

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

from benchmarks.states import RUN_ON_HOST, RUN_OPEN
from core.models import BaseModel


class Run(BaseModel):
    """One benchmark of one GPU: asked for, offered to its machine, reported, judged.

    Laws: one open run per GPU, and one at a time per machine (two would disturb each other's network and storage figures).
    ``attempt`` counts repetitions after failures of the same request and sets the wait before the next.
    """

    class Status(models.TextChoices):
        REQUESTED = "requested", _("Waiting")
        OFFERED = "offered", _("Offered to the machine")
        RUNNING = "running", _("Running")
        REPORTED = "reported", _("Reported")
        VERIFIED = "verified", _("Verified")
        FAILED = "failed", _("Failed")
        EXPIRED = "expired", _("No answer in time")

    class Trigger(models.TextChoices):
        ENROLMENT = "enrolment", _("First measurement")
        WEEKLY = "weekly", _("Weekly")
        SURPRISE = "surprise", _("At random")
        RETEST = "retest", _("Retest")
        CHANGE = "change", _("Driver or card changed")
        CLASH = "clash", _("Another machine claims the card")

    gpu = models.ForeignKey("providers.Gpu", on_delete=models.PROTECT, related_name="benchmark_runs")
    machine = models.ForeignKey("providers.Machine", on_delete=models.PROTECT, related_name="benchmark_runs")
    suite = models.ForeignKey("benchmarks.Suite", on_delete=models.PROTECT, related_name="runs")
    status = models.CharField(max_length=12, choices=Status, default=Status.REQUESTED)
    trigger = models.CharField(max_length=12, choices=Trigger)
    requested_by = models.CharField(max_length=80)
    """``system`` or ``user:<id>``."""
    attempt = models.PositiveSmallIntegerField(default=1)
    requested_at = models.DateTimeField()
    not_before = models.DateTimeField()
    challenge = models.JSONField(default=dict, blank=True)
    driver_version = models.CharField(max_length=64, blank=True)
    offered_at = models.DateTimeField(null=True, blank=True)
    started_at = models.DateTimeField(null=True, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    progress_percent = models.PositiveSmallIntegerField(null=True, blank=True)
    reported_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    simulated = models.BooleanField(null=True)
    conditions = models.JSONField(default=dict, blank=True)
    reason = models.CharField(max_length=40, blank=True)

    class Meta:
        verbose_name = "benchmark run"
        constraints = [
            models.UniqueConstraint(
                fields=["gpu"], condition=models.Q(status__in=RUN_OPEN), name="benchmarks_run_one_open"
            ),
            models.UniqueConstraint(
                fields=["machine"], condition=models.Q(status__in=RUN_ON_HOST), name="benchmarks_run_one_on_host"
            ),
            models.CheckConstraint(
                condition=~models.Q(status__in=RUN_ON_HOST) | models.Q(lease_until__isnull=False),
                name="benchmarks_run_leased",
            ),
        ]
        indexes = [
            models.Index(fields=["not_before"], condition=models.Q(status="requested"), name="benchmarks_run_due"),
            models.Index(
                fields=["lease_until"], condition=models.Q(status__in=RUN_ON_HOST), name="benchmarks_run_lease"
            ),
            models.Index(fields=["gpu", "-requested_at"], name="benchmarks_run_history"),
        ]

    def __str__(self) -> str:
        return f"run {self.pk} of {self.gpu_id}"


class Result(models.Model):
    """One figure of a run; null is "not measured". Written once."""

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="results")
    metric = models.CharField(max_length=24)
    value = models.DecimalField(max_digits=16, decimal_places=4, null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "metric"], name="benchmarks_result_once")]

    def __str__(self) -> str:
        return f"{self.metric} = {self.value}"

from __future__ import annotations

from django.db import models

from core.models import BaseModel
from providers.schedules import WeeklySchedule, windows_parse


class Schedule(BaseModel):
    """One version of when a provider's machines (or one machine) are offered. An edit opens the next version.

    ``next_change_at``: when the newest version opens or closes next; null on older versions and where it never does.
    ``scored_from``: from when it counts for uptime (a narrowing counts a day later than it hides).
    """

    provider = models.ForeignKey(
        "providers.Provider", on_delete=models.PROTECT, related_name="schedules", null=True, blank=True
    )
    machine = models.ForeignKey(
        "providers.Machine", on_delete=models.PROTECT, related_name="schedules", null=True, blank=True
    )
    version = models.PositiveIntegerField()
    zone = models.CharField(max_length=64)
    always_on = models.BooleanField()
    windows = models.JSONField(default=list, blank=True)
    valid_from = models.DateTimeField()
    scored_from = models.DateTimeField()
    next_change_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(provider__isnull=False, machine__isnull=True)
                | models.Q(provider__isnull=True, machine__isnull=False),
                name="providers_schedule_one_owner",
            ),
            models.UniqueConstraint(fields=["provider", "version"], name="providers_schedule_provider_version"),
            models.UniqueConstraint(fields=["machine", "version"], name="providers_schedule_machine_version"),
        ]
        indexes = [
            models.Index(
                fields=["next_change_at"],
                condition=models.Q(next_change_at__isnull=False),
                name="providers_schedule_due",
            )
        ]

    def __str__(self) -> str:
        return f"schedule {self.pk} v{self.version}"

    @property
    def weekly(self) -> WeeklySchedule:
        """The pure value that providers.schedules computes with."""
        return WeeklySchedule(zone=self.zone, always_on=self.always_on, windows=windows_parse(self.windows))

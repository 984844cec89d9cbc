from __future__ import annotations

from django.db import models


class UsageWindow(models.Model):
    """Seconds of a rental that are backed by evidence, per quarter of an hour. Partitioned by ``starts_at``.

    ``from_seconds`` and ``to_seconds`` count billed seconds since the rental's start; ``through_at`` is the report that
    backs them. One row per rental and quarter, extended each minute by one set-based statement (services.windows).
    """

    pk = models.CompositePrimaryKey("rental_id", "starts_at")
    rental_id = models.UUIDField()
    starts_at = models.DateTimeField()
    from_seconds = models.BigIntegerField()
    to_seconds = models.BigIntegerField()
    through_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(to_seconds__gt=models.F("from_seconds")), name="marketplace_usagewindow_forward"
            )
        ]

    def __str__(self) -> str:
        return f"{self.rental_id} {self.starts_at}"

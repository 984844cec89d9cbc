from __future__ import annotations

from django.db import models


class Delivery(models.Model):
    """One piece of news for one consumer, written in the publisher's transaction and claimed with SKIP LOCKED."""

    id = models.BigAutoField(primary_key=True)
    consumer = models.CharField(max_length=80)
    topic = models.CharField(max_length=80)
    subject = models.UUIDField()
    published_at = models.DateTimeField()
    done_at = models.DateTimeField(null=True, blank=True)
    attempts = models.PositiveSmallIntegerField(default=0)
    retry_at = models.DateTimeField()
    error = models.TextField(blank=True)

    class Meta:
        verbose_name_plural = "deliveries"
        indexes = [
            models.Index(fields=["retry_at", "id"], name="core_delivery_open", condition=models.Q(done_at__isnull=True))
        ]

    def __str__(self) -> str:
        return f"{self.topic} → {self.consumer}"

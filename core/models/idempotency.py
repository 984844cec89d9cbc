from __future__ import annotations

from django.db import models


class IdempotencyKey(models.Model):
    """The answer given to a POST that costs money, per principal, route and key; another body under the key is refused."""

    id = models.BigAutoField(primary_key=True)
    principal = models.CharField(max_length=80)
    route = models.CharField(max_length=120)
    key = models.CharField(max_length=80)
    request_hash = models.BinaryField(max_length=32)
    status = models.PositiveSmallIntegerField(null=True)
    body = models.JSONField(null=True)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["principal", "route", "key"], name="core_idempotencykey_once"),
        ]

    def __str__(self) -> str:
        return f"{self.route} {self.key}"

from __future__ import annotations

from django.db import models

from core import clock
from core.ids import uuid7


class BaseModel(models.Model):
    """A public row: a UUIDv7 key and the instant it was made."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        abstract = True

from __future__ import annotations

from django.db import models


class LogChunk(models.Model):
    """Output bytes of an attempt from ``offset`` on, as they came. Partitioned by ``received_at``.

    Offsets cannot overlap: ``Attempt.log_bytes`` moves by one conditional UPDATE in the same transaction.
    """

    pk = models.CompositePrimaryKey("attempt_id", "offset", "received_at")
    attempt_id = models.UUIDField()
    offset = models.BigIntegerField()
    received_at = models.DateTimeField()
    data = models.BinaryField()

    def __str__(self) -> str:
        return f"{self.attempt_id} @ {self.offset}"

from __future__ import annotations

from django.db import models


class TelemetryRollup(models.Model):
    """Five minutes of one GPU: means, peaks, and how many readings they are made of. Partitioned by ``starts_at``.

    Null: no reading knew it. No row: nothing was heard. Written once by ``services.telemetry_roll_up``.
    """

    pk = models.CompositePrimaryKey("gpu_id", "starts_at")
    gpu_id = models.UUIDField()
    starts_at = models.DateTimeField()
    samples = models.PositiveSmallIntegerField()
    utilization_percent = models.FloatField(null=True)
    memory_used_bytes = models.FloatField(null=True)
    memory_used_bytes_peak = models.FloatField(null=True)
    temperature_c = models.FloatField(null=True)
    temperature_c_peak = models.FloatField(null=True)
    power_w = models.FloatField(null=True)
    power_w_peak = models.FloatField(null=True)
    sm_clock_mhz = models.FloatField(null=True)
    memory_clock_mhz = models.FloatField(null=True)

    def __str__(self) -> str:
        return f"{self.gpu_id} {self.starts_at}"

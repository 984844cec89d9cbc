from __future__ import annotations

from django.db import models

from core.models import BaseModel


class Verdict(BaseModel):
    """What a run means for a GPU; the latest one of a GPU is in force. Written once.

    ``meets_minimum``: this run alone. ``passed``: the GPU may be offered (see verification.standing). ``in_review``: a
    figure was too good to be true, and a person has to look. ``reasons``: the findings, see verification.Reason.
    """

    gpu = models.ForeignKey("providers.Gpu", on_delete=models.PROTECT, related_name="verdicts")
    run = models.ForeignKey("benchmarks.Run", on_delete=models.PROTECT, related_name="verdicts")
    passed = models.BooleanField()
    meets_minimum = models.BooleanField()
    in_review = models.BooleanField(default=False)
    health_percent = models.DecimalField(max_digits=8, decimal_places=1, null=True)
    performance_index = models.DecimalField(max_digits=8, decimal_places=1, null=True)
    reasons = models.JSONField(default=list)
    simulated = models.BooleanField()
    decided_at = models.DateTimeField()
    decided_by = models.CharField(max_length=80)

    class Meta:
        indexes = [models.Index(fields=["gpu", "-decided_at", "-id"], name="benchmarks_verdict_latest")]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(in_review=False) | models.Q(passed=False), name="benchmarks_verdict_review_hides"
            )
        ]

    def __str__(self) -> str:
        return f"{'passed' if self.passed else 'not passed'}: {self.gpu_id}"

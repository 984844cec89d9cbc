from __future__ import annotations

from django.db import models


class Subject(models.TextChoices):
    MACHINE = "machine"
    PROVIDER = "provider"


class Score(models.Model):
    """The present score of a machine or provider. u, c, b, s are the public formula's letters, each out of 100.

    Null is "not known yet". A result computed for an earlier instant never overwrites a later one. ``announced_s`` is the
    score that others were last told of (news ``provider.score``).
    """

    id = models.BigAutoField(primary_key=True)
    subject_kind = models.CharField(max_length=8, choices=Subject)
    subject_id = models.UUIDField()
    provider = models.ForeignKey("providers.Provider", on_delete=models.PROTECT, related_name="scores")
    u = models.DecimalField(max_digits=6, decimal_places=3, null=True)
    c = models.DecimalField(max_digits=6, decimal_places=3)
    b = models.DecimalField(max_digits=6, decimal_places=3, null=True)
    s = models.DecimalField(max_digits=6, decimal_places=3, null=True)
    evidence_seconds = models.BigIntegerField()
    formula_version = models.PositiveSmallIntegerField()
    computed_at = models.DateTimeField()
    announced_s = models.DecimalField(max_digits=6, decimal_places=3, null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["subject_kind", "subject_id"], name="reliability_score_once")]

    def __str__(self) -> str:
        return f"{self.subject_kind} {self.subject_id}: {self.s}"


class ScoreDay(models.Model):
    """The last score of each UTC day, for the chart."""

    id = models.BigAutoField(primary_key=True)
    subject_kind = models.CharField(max_length=8, choices=Subject)
    subject_id = models.UUIDField()
    day = models.DateField()
    u = models.DecimalField(max_digits=6, decimal_places=3, null=True)
    c = models.DecimalField(max_digits=6, decimal_places=3)
    b = models.DecimalField(max_digits=6, decimal_places=3, null=True)
    s = models.DecimalField(max_digits=6, decimal_places=3, null=True)
    computed_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["subject_kind", "subject_id", "day"], name="reliability_scoreday_once")
        ]

    def __str__(self) -> str:
        return f"{self.subject_id} {self.day}: {self.s}"

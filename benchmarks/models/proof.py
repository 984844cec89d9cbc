from __future__ import annotations

from django.db import models

from benchmarks.models.run import Run
from core.models import BaseModel


class Proof(BaseModel):
    """One attempt at a run's challenge (agent_protocol.challenge), stage by stage; each stage is written once.

    Started: the seed was made and given. Committed: the roots came, and the rows to open were chosen. Opened: leaves came
    that lead to the roots. Decided: the rows were recomputed; ``wrong`` names the first that differs (null: none).
    """

    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="proofs")
    attempt = models.UUIDField()
    """The host's name for this beginning; a repeated request brings it again."""
    seed = models.CharField(max_length=64)
    n = models.PositiveIntegerField()
    rounds = models.PositiveIntegerField()
    started_at = models.DateTimeField()
    roots = models.JSONField(default=list)
    product_s = models.FloatField(null=True)
    """What the device spent multiplying, as the host says."""
    rows = models.JSONField(default=list)
    """[[round, row], …] to open, chosen after the roots had come."""
    committed_at = models.DateTimeField(null=True)
    leaves = models.JSONField(default=list)
    """Hexadecimal, one per opened row, in the order of ``rows``."""
    opened_at = models.DateTimeField(null=True)
    wrong = models.JSONField(null=True)
    decided_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "attempt"], name="benchmarks_proof_once"),
            models.CheckConstraint(
                condition=models.Q(opened_at__isnull=True) | models.Q(committed_at__isnull=False),
                name="benchmarks_proof_commits_before_opening",
            ),
            models.CheckConstraint(
                condition=models.Q(decided_at__isnull=True) | models.Q(opened_at__isnull=False),
                name="benchmarks_proof_opens_before_decision",
            ),
        ]
        indexes = [
            models.Index(
                fields=["opened_at"],
                condition=models.Q(opened_at__isnull=False, decided_at__isnull=True),
                name="benchmarks_proof_undecided",
            ),
        ]

    def __str__(self) -> str:
        return f"proof of {self.run_id}"

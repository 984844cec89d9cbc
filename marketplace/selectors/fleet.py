"""What a provider sees of its own machines at work. Never who the customer is, nor what runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from marketplace.models import Attempt
from marketplace.outcomes import reason_sentence
from providers.models import Provider


@dataclass(frozen=True)
class MachineJob:
    """One attempt as its provider sees it: times, GPUs, rate, result. Amounts in micro-USDC, before the fee."""

    id: UUID
    status: str
    gpus: int
    gpu_model: str
    rate_micro: int
    started_at: datetime | None
    ended_at: datetime | None
    billed_seconds: int
    charged_micro: int
    reason: str


def machine_jobs(*, provider: Provider, machine_id: UUID, limit: int = 50) -> list[MachineJob]:
    """The machine's attempts, newest first; nothing for a machine of somebody else."""
    rows = Attempt.objects.filter(provider=provider, machine=machine_id).select_related("rental__gpu_model")
    return [
        MachineJob(
            id=row.pk,
            status=row.status,
            gpus=row.rental.gpus,
            gpu_model=row.rental.gpu_model.name,
            rate_micro=row.rental.rate_micro,
            started_at=row.rental.started_at,
            ended_at=row.ended_at,
            billed_seconds=row.rental.billed_seconds,
            charged_micro=row.rental.charged_micro - row.rental.credited_micro,
            reason=reason_sentence(row.reason) if row.reason else "",
        )
        for row in rows.order_by("-pk")[:limit]
    ]

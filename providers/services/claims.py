"""Who has which GPU. Jobs and benchmarks take the same claim, so a card is never given twice (a law: one live per GPU)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from django.db import connection, transaction
from django.utils.translation import gettext as _

from core.errors import Conflict
from core.ids import uuid7
from providers.models import GpuClaim

# A job takes only cards on offer in a machine at work; a benchmark may also test a card under review or a new machine.
_OFFERED = {
    "job": (["active"], ["active"]),
    "benchmark": (["active", "needs_review"], ["active", "pending_confirmation", "draining", "quarantined"]),
}

# Rows go in by GPU id, so that two claimants of overlapping sets meet at the first common card and never in a circle.
# The share lock makes a change of a card's status (retired, gone) and a claim of it wait for each other.
_CLAIM = """
INSERT INTO providers_gpuclaim (id, created_at, gpu_id, kind, holder, live, claimed_at)
SELECT wanted.id, %(now)s, gpu.id, %(kind)s, %(holder)s, true, %(now)s
FROM unnest(%(ids)s::uuid[], %(gpus)s::uuid[]) AS wanted (id, gpu_id)
JOIN providers_gpu gpu ON gpu.id = wanted.gpu_id AND gpu.status = ANY (%(gpu_statuses)s)
JOIN providers_machine machine ON machine.id = gpu.machine_id AND machine.status = ANY (%(machine_statuses)s)
ORDER BY gpu.id
FOR SHARE OF gpu
ON CONFLICT (gpu_id) WHERE live DO NOTHING
"""


def gpus_claim(*, gpu_ids: Iterable[UUID], kind: str, holder: UUID, now: datetime) -> bool:
    """Claim all of the GPUs for ``holder`` (an attempt's or a run's id), or none of them.

    True when all are the holder's, also if it had them before. Raises Conflict ``gpu_taken`` when one is somebody
    else's or not on offer; then nothing has moved.
    """
    wanted = sorted(set(gpu_ids))
    gpu_statuses, machine_statuses = _OFFERED[kind]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            _CLAIM,
            {
                "now": now,
                "kind": kind,
                "holder": str(holder),
                "ids": [str(uuid7()) for _gpu in wanted],
                "gpus": [str(gpu) for gpu in wanted],
                "gpu_statuses": gpu_statuses,
                "machine_statuses": machine_statuses,
            },
        )
        if cursor.rowcount != len(wanted) and not _held(wanted, kind, holder):
            raise Conflict(_("One of these GPUs is taken or not on offer."), code="gpu_taken")
    return True


def _held(wanted: list[UUID], kind: str, holder: UUID) -> bool:
    return GpuClaim.objects.filter(gpu__in=wanted, kind=kind, holder=holder, live=True).count() == len(wanted)


def gpus_release(*, holder: UUID, now: datetime) -> list[UUID]:
    """Let go of every GPU the holder has; returns their ids (none when it was done before)."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE providers_gpuclaim SET live = false, released_at = %s WHERE holder = %s AND live RETURNING gpu_id",
            [now, str(holder)],
        )
        return [row[0] for row in cursor.fetchall()]

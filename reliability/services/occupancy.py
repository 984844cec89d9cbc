"""A GPU in use without a job is not offered: a process of somebody else's, or memory that was not given back."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import structlog
from django.db import connection, transaction

from core import news
from core.locks import lock_name_now
from reliability.models.occupancy import OCCUPIED_SAMPLES

log = structlog.get_logger(__name__)

MEMORY_SHARE = 0.05
"""An idle card's driver keeps some hundred MiB at most; a twentieth of the memory is more than that on every card."""
SPACING = timedelta(seconds=10)
"""Agents look at their cards this often: two readings closer together may be the same look."""
AFTER_A_JOB = timedelta(seconds=25)
"""A reading may be a look and a heartbeat older than the end of a job; such a one says nothing about what came after it."""
FRESH = timedelta(minutes=3)

_SAMPLE = """
WITH reading AS (
    SELECT gpu.id AS gpu_id, health.last_seen_at AS at,
        (said->>'foreign_processes')::numeric AS processes,
        (said->>'memory_used_bytes')::numeric / nullif(gpu.memory_bytes, 0) AS share,
        coalesce((said->>'held_after_job')::boolean, false) AS after_job
    FROM reliability_machinehealth health
    CROSS JOIN LATERAL jsonb_array_elements(health.telemetry) AS said
    JOIN providers_gpu gpu ON gpu.machine_id = health.machine_id AND gpu.uuid = said->>'uuid' AND gpu.status = 'active'
    WHERE health.state = 'online' AND health.last_seen_at > %(fresh)s
        AND NOT EXISTS (
            SELECT 1 FROM providers_gpuclaim claim WHERE claim.gpu_id = gpu.id
                AND (claim.live OR claim.released_at > health.last_seen_at - %(after)s
                    AND NOT coalesce((said->>'held_after_job')::boolean, false))
        )
), sample AS (
    SELECT gpu_id, at, CASE WHEN after_job THEN %(enough)s ELSE 1 END AS weight,
        CASE WHEN after_job THEN 'memory_held' WHEN processes > 0 THEN 'foreign_process'
            WHEN share > %(share)s THEN 'memory_held' END AS reason
    FROM reading WHERE processes IS NOT NULL OR share IS NOT NULL OR after_job
)
"""
_COUNT = f"""
{_SAMPLE}
INSERT INTO reliability_gpuoccupancy AS held (gpu_id, reason, samples, first_at, last_at)
SELECT gpu_id, reason, weight, at, at FROM sample WHERE reason IS NOT NULL ORDER BY gpu_id
ON CONFLICT (gpu_id) DO UPDATE SET
    reason = EXCLUDED.reason, samples = least(held.samples + EXCLUDED.samples, 1000), last_at = EXCLUDED.last_at
WHERE EXCLUDED.last_at >= held.last_at + %(spacing)s
RETURNING new.gpu_id, new.samples, coalesce(old.samples, 0)
"""
# A card that was claimed before the third reading is somebody's work now, and begins anew afterwards.
_FORGET = f"""
{_SAMPLE}
DELETE FROM reliability_gpuoccupancy held
WHERE EXISTS (SELECT 1 FROM sample WHERE sample.gpu_id = held.gpu_id AND reason IS NULL AND at > held.last_at)
    OR held.samples < %(enough)s
        AND EXISTS (SELECT 1 FROM providers_gpuclaim claim WHERE claim.gpu_id = held.gpu_id AND claim.live)
    OR NOT EXISTS (SELECT 1 FROM providers_gpu gpu WHERE gpu.id = held.gpu_id AND gpu.status = 'active')
RETURNING held.gpu_id, held.samples, held.samples
"""


def occupancies_judge(*, now: datetime) -> tuple[int, int]:
    """Count the newest readings of all cards nobody has; returns (newly occupied, free again). A twin goes home.

    Three readings make a card occupied; one does where its agent says that a job has left its memory in use (it looked after
    the job's end, which a bare number cannot prove). What a card does not say proves nothing, in either direction. Publishes
    ``gpu.occupancy`` for each that changed.
    """
    arguments: dict[str, Any] = {
        "fresh": now - FRESH,
        "after": AFTER_A_JOB,
        "share": MEMORY_SHARE,
        "spacing": SPACING,
        "enough": OCCUPIED_SAMPLES,
    }
    with transaction.atomic():
        if not lock_name_now("gpu-occupancies"):
            return 0, 0
        freed = [gpu_id for gpu_id, samples, _ in _run(_FORGET, arguments) if samples >= OCCUPIED_SAMPLES]
        counted = _run(_COUNT, arguments)
        taken = [gpu_id for gpu_id, samples, before in counted if before < OCCUPIED_SAMPLES <= samples]
        news.publish_many("gpu.occupancy", [*freed, *taken], now=now)
    if freed or taken:
        log.info("gpu_occupancies_changed", occupied=len(taken), free=len(freed))
    return len(taken), len(freed)


def _run(statement: str, arguments: dict[str, Any]) -> list[tuple[UUID, int, int]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, arguments)
        return cursor.fetchall()

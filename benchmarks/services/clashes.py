"""A card that another machine claims: its incumbent sells on, unless it cannot answer a challenge for it now."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.db import transaction

from benchmarks.models import Run
from benchmarks.services.requests import runs_request
from benchmarks.states import RUN_OPEN
from core import clock, jobs
from core.locks import lock_rows
from providers.models import Gpu

RECHALLENGE_EVERY = timedelta(days=1)
"""Every renter sees UUIDs: whoever claims one again and again must not keep a rival's card busy with challenges."""


def gpu_rechallenge(gpu_id: UUID) -> None:
    """Consumer of gpu.clash: have the incumbent measured now (after the job that may have the card), once a day at most."""
    now = clock.now()
    with transaction.atomic():
        (gpu,) = lock_rows(Gpu.objects.all(), [gpu_id])
        recent = Run.objects.filter(gpu=gpu, trigger=Run.Trigger.CLASH, requested_at__gt=now - RECHALLENGE_EVERY)
        if gpu.status != Gpu.Status.ACTIVE or recent.exists():
            return
        under_way = Run.objects.filter(gpu=gpu, status__in=RUN_OPEN)
        if not under_way.exists():
            runs_request(gpus=[gpu], trigger=Run.Trigger.CLASH, now=now)
            return
        # What is on its way already is the challenge.
        under_way.filter(status=Run.Status.REQUESTED, not_before__gt=now).update(not_before=now)
        under_way.update(trigger=Run.Trigger.CLASH, attempt=1)
        jobs.enqueue("benchmarks.runs_dispatch")

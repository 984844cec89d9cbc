"""What of the fleet waits for staff."""

from __future__ import annotations

from django.db.models import Count

from providers.models import Gpu, Machine

WAITING = (Machine.Status.PENDING_CONFIRMATION, Machine.Status.QUARANTINED)


def machines_waiting() -> dict[str, int]:
    """Machines that are here and cannot be rented until a person acts: status → how many."""
    rows = Machine.objects.filter(status__in=WAITING).order_by().values("status").annotate(number=Count("pk"))
    return {row["status"]: row["number"] for row in rows}


def gpus_in_review() -> int:
    """GPUs that are not what the application said and wait for a look."""
    return Gpu.objects.filter(status=Gpu.Status.NEEDS_REVIEW).count()

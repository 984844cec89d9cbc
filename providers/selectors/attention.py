"""What of the fleet waits for staff."""

from __future__ import annotations

from django.db.models import Count, F, Q, QuerySet

from providers.models import Gpu, Machine
from providers.states import MACHINE_LIVE

WAITING = (Machine.Status.PENDING_CONFIRMATION, Machine.Status.QUARANTINED)


def machines_waiting() -> dict[str, int]:
    """Machines that are here and cannot be rented until a person acts: status → how many."""
    rows = Machine.objects.filter(status__in=WAITING).order_by().values("status").annotate(number=Count("pk"))
    return {row["status"]: row["number"] for row in rows}


def gpus_in_review() -> tuple[int, int]:
    """GPUs that are not what the application said: how many wait for a look, and how many their owners ask to add."""
    held = Gpu.objects.filter(status=Gpu.Status.NEEDS_REVIEW)
    found = held.aggregate(all=Count("pk"), asked=Count("pk", filter=Q(requested_at__isnull=False, declined="")))
    return found["all"], found["asked"]


def machines_short() -> QuerySet[Machine]:
    """Live machines well below what was declared (providers.shortfalls) that no reviewer has looked at."""
    live = Machine.objects.filter(status__in=MACHINE_LIVE)
    return live.exclude(shortfalls=[]).exclude(shortfalls_accepted__contains=F("shortfalls"))

"""What of the market an operator looks at first."""

from __future__ import annotations

from django.db.models import Count

from marketplace.models import Dispute, Job, Listing

WANTED_SO = ("machine_retired", "outside_schedule", "draining", "provider_closed")
"""Hidden because the provider wants it so: nothing for staff."""


def listings_hidden() -> dict[str, int]:
    """Why listings are not in the market, the most frequent reason first: reason → how many."""
    hidden = Listing.objects.filter(visible=False).exclude(hidden_reason__in=WANTED_SO)
    rows = hidden.order_by().values("hidden_reason").annotate(number=Count("pk")).order_by("-number", "hidden_reason")
    return {row["hidden_reason"]: row["number"] for row in rows}


def jobs_open() -> dict[str, int]:
    """Jobs under way: status (``queued``, ``active``) → how many."""
    rows = Job.objects.filter(ended_at__isnull=True).order_by().values("status").annotate(number=Count("pk"))
    return {row["status"]: row["number"] for row in rows}


def disputes_open() -> int:
    """How many disputes wait for a decision."""
    return Dispute.objects.filter(status=Dispute.Status.OPEN).count()

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.translation import gettext as _

from accounts.models import Party
from core.cursors import cursor_decode, cursor_encode
from marketplace.models import Attempt, Dispute, Job, Rental
from providers.models import Provider

DISPUTE_WINDOW = timedelta(hours=72)
"""After the attempt's end: a weekend to look at the results, and not long after the earnings have matured (48 hours)."""
PAGE = 25
SCOPE = "disputes"
SHOWN = 20
"""Of a provider's disputes on the earnings page: all that are open, and what was decided last."""


@dataclass(frozen=True, slots=True)
class DisputeOffer:
    """An attempt's charge as its customer sees it: disputed, open to dispute until ``until``, or why not (``refusal``)."""

    attempt: Attempt
    amount_micro: int
    dispute: Dispute | None
    refusal: str
    until: datetime | None

    @property
    def offered(self) -> bool:
        return self.dispute is None and not self.refusal


def dispute_refusal(*, attempt: Attempt, now: datetime) -> str:
    """Why this attempt cannot be disputed now, in the reader's words; empty where it can. Needs ``attempt.rental``."""
    rental: Rental | None = getattr(attempt, "rental", None)
    if rental is None or attempt.ended_at is None or rental.settled_at is None:
        return _("It has not been settled yet: that is a minute after its end.")
    if now > attempt.ended_at + DISPUTE_WINDOW:
        return _("Its time has passed: a charge may be disputed for 72 hours after the attempt has ended.")
    if rental.charged_micro <= rental.credited_micro:
        return _("It has cost nothing, or has been given back.")
    return ""


def dispute_offers(job: Job, *, now: datetime) -> list[DisputeOffer]:
    """Of the attempts that cost something, as loaded by job_of; one query."""
    disputes = {each.attempt_id: each for each in Dispute.objects.filter(attempt__job=job)}
    found = []
    for attempt in job.attempts.all():
        rental = getattr(attempt, "rental", None)
        if rental is None or rental.charged_micro == 0:
            continue
        until = attempt.ended_at + DISPUTE_WINDOW if attempt.ended_at else None
        left = rental.charged_micro - rental.credited_micro
        found.append(
            DisputeOffer(attempt, left, disputes.get(attempt.pk), dispute_refusal(attempt=attempt, now=now), until)
        )
    return found


def disputes_of(customer: Party, *, cursor: str = "") -> tuple[list[Dispute], str | None]:
    """A page of a customer's disputes, newest first, and the next page's cursor. Raises Invalid (field ``cursor``)."""
    rows = Dispute.objects.filter(customer=customer).select_related("attempt").order_by("-pk")
    if cursor:
        (last,) = cursor_decode(cursor, scope=SCOPE)
        rows = rows.filter(pk__lt=str(last))
    found = list(rows[: PAGE + 1])
    return found[:PAGE], cursor_encode([str(found[PAGE - 1].pk)], scope=SCOPE) if len(found) > PAGE else None


def disputes_of_provider(provider: Provider) -> list[Dispute]:
    """Disputes about what this provider earned: the open ones, then what was decided last, at most SHOWN. Never whose."""
    rows = Dispute.objects.filter(provider=provider).select_related("attempt__machine", "attempt__rental__gpu_model")
    waiting = list(rows.filter(status=Dispute.Status.OPEN).order_by("-pk"))
    return waiting + list(rows.exclude(status=Dispute.Status.OPEN).order_by("-decided_at")[:SHOWN])

"""Movements of a customer's balance in words: which job a charge was for, and where to look."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.urls import reverse

from billing.selectors import HeldRow, HistoryRow
from billing.selectors.documents import ReceiptKey, receipts_of_transfers
from marketplace.models import Attempt, Charge, Job, Rental
from marketplace.models.protection import DISPUTE_PREFIX
from marketplace.models.rental import CREDIT_PREFIX, HOLD_PREFIX


@dataclass(frozen=True, slots=True)
class Told:
    """``what``: in words; ``of``: the job's name, the receipt's number, why it was adjusted; ``url``: where it is."""

    at: datetime
    kind: str
    what: str
    of: str
    url: str
    amount_micro: int
    job_id: UUID | None = None


def history_told(rows: Sequence[HistoryRow]) -> list[Told]:
    """The rows in words, for at most three queries."""
    jobs = _jobs_of([row.source for row in rows])
    receipts = receipts_of_transfers([row.transfer_id for row in rows if row.kind.startswith("deposit")])
    return [_told(row, jobs.get(row.source), receipts.get(row.transfer_id)) for row in rows]


def _told(row: HistoryRow, job: Job | None, receipt: ReceiptKey | None) -> Told:
    of, url = row.note, ""
    if job is not None:
        of, url = _name(job), reverse("marketplace_job", args=[job.pk])
    elif receipt is not None:
        of, url = receipt.label, reverse("billing_document", args=[receipt.id])
    return Told(row.at, row.kind, row.words, of, url, row.amount_micro, job.pk if job else None)


def holds_told(holds: Sequence[HeldRow]) -> list[Told]:
    """What is set aside, by job."""
    rentals = {_uuid(hold.source, HOLD_PREFIX): hold for hold in holds}
    rows = Rental.objects.filter(pk__in=[key for key in rentals if key]).select_related("attempt__job")
    jobs = {rental.pk: rental.attempt.job for rental in rows}
    told = []
    for hold in holds:
        key = _uuid(hold.source, HOLD_PREFIX)
        job = jobs.get(key) if key else None
        url = reverse("marketplace_job", args=[job.pk]) if job else ""
        told.append(
            Told(hold.at, "hold", "", _name(job) if job else "", url, hold.amount_micro, job.pk if job else None)
        )
    return told


def rental_names(rental_ids: Iterable[UUID]) -> dict[UUID, str]:
    """The names of the jobs behind rentals."""
    rows = Rental.objects.filter(pk__in=list(rental_ids)).select_related("attempt__job")
    return {rental.pk: _name(rental.attempt.job) for rental in rows}


def _name(job: Job) -> str:
    return job.name or job.image


def _jobs_of(sources: Sequence[str]) -> dict[str, Job]:
    charges = Charge.objects.filter(source__in=sources).select_related("rental__attempt__job")
    found = {charge.source: charge.rental.attempt.job for charge in charges}
    attempts = {
        source: key
        for source in sources
        for prefix in (CREDIT_PREFIX, DISPUTE_PREFIX)
        if (key := _uuid(source, prefix))
    }
    if attempts:
        known = Attempt.objects.select_related("job").in_bulk(set(attempts.values()))
        found |= {source: known[key].job for source, key in attempts.items() if key in known}
    return found


def _uuid(source: str, prefix: str) -> UUID | None:
    if not source.startswith(prefix):
        return None
    try:
        return UUID(source.removeprefix(prefix))
    except ValueError:
        return None

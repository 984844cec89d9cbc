from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Prefetch

from accounts.models import Party
from agent_protocol.reasons import reason_get
from core.cursors import cursor_decode, cursor_encode
from core.errors import NotFound
from core.models import StatusEvent
from core.money import charge_micro
from marketplace import logtext, outcomes
from marketplace.models import Attempt, Job, LogChunk, Rental

PAGE = 25
LOG_PAGE_BYTES = 256 * 1024
_HAS_STARTED = frozenset({Attempt.Status.RUNNING, Attempt.Status.STOPPING, Attempt.Status.ENDED})


def job_of(*, customer: Party, job_id: UUID) -> Job:
    """The customer's own job with its attempts. Raises NotFound, for one that is not theirs too."""
    attempts = Attempt.objects.select_related("rental__gpu_model", "provider__party", "machine").order_by("number")
    rows = Job.objects.select_related("gpu_model", "listing__gpu_model", "customer", "rerun_of")
    job = rows.prefetch_related(Prefetch("attempts", attempts)).filter(pk=job_id, customer=customer).first()
    if job is None:
        raise NotFound("There is no such job.")
    return job


def jobs_of(*, customer: Party, cursor: str = "", size: int = PAGE) -> tuple[list[Job], str | None]:
    """A customer's jobs, newest first, and the cursor of the next page. Raises Invalid (field ``cursor``)."""
    attempts = Attempt.objects.select_related("rental__gpu_model", "provider__party").order_by("number")
    rows = Job.objects.filter(customer=customer).select_related("gpu_model").order_by("-pk")
    if cursor:
        (last,) = cursor_decode(cursor, scope="jobs")
        rows = rows.filter(pk__lt=str(last))
    found = list(rows.prefetch_related(Prefetch("attempts", attempts))[: size + 1])
    more = cursor_encode([str(found[size - 1].pk)], scope="jobs") if len(found) > size else None
    return found[:size], more


@dataclass(frozen=True)
class Cost:
    """What a job costs so far. ``accruing_micro``: not in the ledger yet; ``rate_micro``: of the running attempt, else None."""

    charged_micro: int
    accruing_micro: int
    credited_micro: int
    billed_seconds: int
    rate_micro: int | None

    @property
    def total_micro(self) -> int:
        return self.charged_micro + self.accruing_micro - self.credited_micro


def cost_of(job: Job, *, now: datetime) -> Cost:
    """From the job's attempts as loaded by job_of or jobs_of. What accrues is by our clock, up to a stop that was ordered;
    the final charge is never more than that."""
    charged = accruing = credited = seconds = 0
    rate = None
    for attempt in job.attempts.all():
        rental: Rental | None = getattr(attempt, "rental", None)
        if rental is None:
            continue
        charged += rental.charged_micro
        credited += rental.credited_micro
        ran = rental_seconds(attempt, rental, now)
        seconds += ran
        whole = charge_micro(rate_micro=rental.rate_micro, gpus=rental.gpus, seconds=ran)
        accruing += max(0, whole - rental.charged_micro)
        if attempt.ended_at is None and rental.started_at is not None and attempt.stop_requested_at is None:
            rate = rental.rate_micro * rental.gpus
    return Cost(charged, accruing, credited, seconds, rate)


def rental_seconds(attempt: Attempt, rental: Rental, now: datetime) -> int:
    """Seconds that a rental will be charged for at the most, as of now, by our clock."""
    if rental.settled_at is not None or rental.started_at is None:
        return rental.billed_seconds
    end = min(each for each in (now, attempt.stop_requested_at, attempt.ended_at) if each is not None)
    server = max(0, int((end - rental.started_at).total_seconds()))
    if attempt.ended_at is not None and attempt.confirmed_elapsed_s is not None:
        server = min(server, attempt.confirmed_elapsed_s)
    return max(server, rental.billed_seconds)


def reason_words(job_or_attempt: Job | Attempt) -> str:
    """Why it ended, in the reader's language; empty while it has not."""
    code = job_or_attempt.reason
    if not code:
        return ""
    return str(outcomes.JOB_REASONS.get(code) or outcomes.reason_sentence(reason_get(code).code))


def timeline_of(job: Job) -> list[StatusEvent]:
    """Every move of the job and its attempts, oldest first."""
    ids = [job.pk, *(attempt.pk for attempt in job.attempts.all())]
    rows = StatusEvent.objects.filter(subject_type__in=["marketplace.job", "marketplace.attempt"], subject_id__in=ids)
    return list(rows.order_by("id"))


@dataclass(frozen=True)
class Log:
    """A piece of an attempt's output as text. ``next_offset`` (bytes) is where the next piece begins."""

    text: str
    next_offset: int
    total_bytes: int
    dropped: bool
    final: bool


def log_read(attempt: Attempt, *, offset: int = 0, limit: int = LOG_PAGE_BYTES) -> Log:
    """Output from ``offset`` bytes on, about ``limit`` bytes of it, cleaned for people (logtext)."""
    chunks = LogChunk.objects.filter(attempt_id=attempt.pk, offset__gt=offset - 64 * 1024).order_by("offset")
    content, position = bytearray(), offset
    for chunk in chunks.iterator(chunk_size=16):
        data = bytes(chunk.data)
        if chunk.offset + len(data) <= position:
            continue
        content += data[max(0, position - chunk.offset) :]
        position = chunk.offset + len(data)
        if len(content) >= limit:
            break
    piece = _whole_characters(bytes(content), more=position < attempt.log_bytes or not attempt.log_final)
    return Log(logtext.clean(piece), offset + len(piece), attempt.log_bytes, attempt.log_dropped, attempt.log_final)


def _whole_characters(content: bytes, *, more: bool) -> bytes:
    """Without the beginning of a character whose rest has not come yet, so that the next piece starts with it."""
    if not more:
        return content
    for back in range(1, min(4, len(content)) + 1):
        byte = content[-back]
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return content[:-back] if needed > back else content
        if byte < 0x80:
            break
    return content


def plan_complete(items: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Plan items as they go out to a machine: an attempt that it has reported as running says so, and is not begun again by
    an agent that has lost its records. Secrets are never in a plan, however often it is sent."""
    items = list(items)
    wanted = [item["key"] for item in items if item["kind"] == "attempt" and item["body"]["desired"] == "run"]
    if not wanted:
        return items
    begun = set(Attempt.objects.filter(pk__in=wanted, status__in=_HAS_STARTED).values_list("pk", flat=True))
    return [
        {**item, "body": {**item["body"], "started": True}} if UUID(item["key"]) in begun else item for item in items
    ]

"""What must always hold between jobs, GPUs and money; see core.invariants."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connection

from billing.selectors import holds_open
from core.invariants import Invariant, Violation
from marketplace.models import Rental
from marketplace.models.rental import HOLD_PREFIX

_CLAIMS = """
SELECT attempt.id, rental.gpus, count(claim.id) FROM marketplace_attempt attempt
JOIN marketplace_rental rental ON rental.attempt_id = attempt.id
LEFT JOIN providers_gpuclaim claim ON claim.holder = attempt.id AND claim.live AND claim.kind = 'job'
WHERE attempt.status <> 'ended' OR attempt.kept_gpus
GROUP BY attempt.id, rental.gpus HAVING count(claim.id) <> rental.gpus
"""
_STRAY = """
SELECT claim.id, claim.holder FROM providers_gpuclaim claim
LEFT JOIN marketplace_attempt attempt ON attempt.id = claim.holder
WHERE claim.live AND claim.kind = 'job' AND (attempt.id IS NULL OR (attempt.status = 'ended' AND NOT attempt.kept_gpus))
"""
_CHARGES = """
SELECT rental.id, rental.charged_micro, coalesce(sum(charge.amount_micro), 0),
    rental.rate_micro * rental.gpus * rental.billed_seconds / 3600
FROM marketplace_rental rental LEFT JOIN marketplace_charge charge ON charge.rental_id = rental.id
GROUP BY rental.id
HAVING rental.charged_micro <> coalesce(sum(charge.amount_micro), 0)
    OR rental.charged_micro <> rental.rate_micro * rental.gpus * rental.billed_seconds / 3600
"""
_ACTIVE = """
SELECT job.id, count(attempt.id) FROM marketplace_job job
LEFT JOIN marketplace_attempt attempt ON attempt.job_id = job.id AND attempt.status <> 'ended'
GROUP BY job.id, job.status HAVING (job.status = 'active') <> (count(attempt.id) = 1)
"""
# A dispute freezes exactly while it is open, and the rental's credit is no less than what it gave back.
_DISPUTES = """
SELECT dispute.id, dispute.status, frozen.source IS NOT NULL AND frozen.thawed_at IS NULL, dispute.refund_micro,
    rental.credited_micro
FROM marketplace_dispute dispute
JOIN marketplace_rental rental ON rental.attempt_id = dispute.attempt_id
LEFT JOIN billing_earningfreeze frozen ON frozen.source = 'dispute:attempt:' || dispute.attempt_id
WHERE (dispute.status = 'open') <> (frozen.source IS NOT NULL AND frozen.thawed_at IS NULL)
    OR coalesce(dispute.refund_micro, 0) > rental.credited_micro
"""


def _rows(sql: str) -> Sequence[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


class AttemptsHoldTheirGpus(Invariant):
    """A live attempt has exactly the GPUs of its rental; a job's live claim belongs to such an attempt."""

    name = "attempts_hold_their_gpus"

    def check(self) -> list[Violation]:
        found = [
            self.violation(attempt, f"rents {gpus} GPUs and holds {held}") for attempt, gpus, held in _rows(_CLAIMS)
        ]
        return found + [
            self.violation(claim, f"is held by {holder}, which has ended") for claim, holder in _rows(_STRAY)
        ]


class ChargesAddUp(Invariant):
    """What a rental was charged is the sum of its charges, and the price of its billed seconds."""

    name = "charges_add_up"

    def check(self) -> list[Violation]:
        return [
            self.violation(rental, f"charged {charged}, its charges add up to {total}, its seconds cost {price}")
            for rental, charged, total, price in _rows(_CHARGES)
        ]


class ActiveJobsHaveOneAttempt(Invariant):
    """A job is active exactly while one attempt of it is live."""

    name = "active_jobs_have_one_attempt"

    def check(self) -> list[Violation]:
        return [self.violation(job, f"has {live} live attempts for its status") for job, live in _rows(_ACTIVE)]


class HoldsBelongToOpenRentals(Invariant):
    """Money is set aside for a rental exactly until it is settled: no hold is forgotten, none is given back early."""

    name = "holds_belong_to_open_rentals"

    def check(self) -> list[Violation]:
        forgotten, missing = self._look()
        if forgotten or missing:
            # Two queries are two moments: only what a second look shows too is wrong.
            again = self._look()
            forgotten, missing = forgotten & again[0], missing & again[1]
        found = [self.violation(source, "is open, its rental is settled or was never") for source in sorted(forgotten)]
        return found + [self.violation(source, "is not open, its rental is not settled") for source in sorted(missing)]

    def _look(self) -> tuple[set[str], set[str]]:
        held = holds_open(HOLD_PREFIX)
        rentals = Rental.objects.filter(settled_at__isnull=True).values_list("pk", flat=True)
        wanted = {f"{HOLD_PREFIX}{rental_id}" for rental_id in rentals}
        return held - wanted, wanted - held


class DisputesFreezeWhileOpen(Invariant):
    """What a dispute is about is frozen exactly until it is decided, and what was given back counts as given back."""

    name = "disputes_freeze_while_open"

    def check(self) -> list[Violation]:
        return [
            self.violation(
                dispute, f"is {status}, frozen: {frozen}, gave back {refund}, the rental's credit is {credited}"
            )
            for dispute, status, frozen, refund, credited in _rows(_DISPUTES)
        ]

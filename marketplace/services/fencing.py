"""Who may say something about an attempt: its machine, under its token. What is refused moves nothing and is kept."""

from __future__ import annotations

import hmac
from datetime import datetime
from typing import Any
from uuid import UUID

from core.errors import Conflict, NotFound
from core.ids import secret_hash
from marketplace.models import Attempt, AttemptEvidence
from providers.models import Machine

EVIDENCE_KEPT = 50
"""Refused reports kept per attempt: enough to see what happened, too few to fill a disk with."""


class StaleToken(Conflict):
    """A report under a token that is not the attempt's."""

    code = "stale_token"


def attempt_of(*, machine: Machine, attempt_id: UUID | str) -> Attempt:
    """The machine's attempt with its job. Raises NotFound."""
    attempt = Attempt.objects.select_related("job").filter(pk=attempt_id, machine_id=machine.pk).first()
    if attempt is None:
        raise NotFound("This machine has no such attempt.")
    return attempt


def attempt_fence(*, attempt: Attempt, machine: Machine, token: str, report: dict[str, Any], now: datetime) -> None:
    """Raises StaleToken, with ``report`` kept as evidence, unless the token is the attempt's."""
    if not hmac.compare_digest(secret_hash(token), bytes(attempt.token_hash)):
        evidence_keep(attempt=attempt, machine=machine, code=StaleToken.code, report=report, now=now)
        raise StaleToken("The token is not this attempt's.", fields={"token": "Found another; it moved nothing."})


def evidence_keep(*, attempt: Attempt, machine: Machine, code: str, report: dict[str, Any], now: datetime) -> None:
    """Keep what was refused, without its token."""
    if AttemptEvidence.objects.filter(attempt=attempt).count() >= EVIDENCE_KEPT:
        return
    report = {name: value for name, value in report.items() if name != "token"}
    AttemptEvidence.objects.create(
        attempt=attempt, machine_id=machine.pk, code=code, boot_id=machine.boot_id, report=report, received_at=now
    )

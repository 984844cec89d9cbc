"""What counts for C: told down by the apps above, once per source."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from django.db import models

from agent_protocol.reasons import Owner
from core.errors import Conflict, Invalid
from reliability.models import Incident, Outcome

Row = TypeVar("Row", bound=models.Model)


def _record(model: type[Row], source: str, facts: dict[str, Any]) -> Row:
    """Insert once per source; the same facts again return the same row, other facts under it are refused."""
    row, made = model._default_manager.get_or_create(source=source, defaults=facts)
    if not made:
        differing = [name for name, value in facts.items() if getattr(row, name) != value]
        if differing:
            raise Conflict(
                f"{source} is recorded with other facts.",
                code="source_taken",
                fields={name: f"Found {facts[name]}; recorded: {getattr(row, name)}." for name in differing},
            )
    return row


def incident_record(
    *,
    source: str,
    provider_id: UUID,
    machine_id: UUID,
    gpu_id: UUID | None,
    reason: str,
    owner: str,
    weight_seconds: int | None,
    at: datetime,
) -> Incident:
    """Something went wrong on a machine. With ``owner`` provider and a weight (GPU-seconds) it counts as a failed job.

    Idempotent per source. Raises Conflict ``source_taken`` (other facts under the source), Invalid (owner, weight_seconds).
    """
    if owner not in list(Owner):
        raise Invalid.field("owner", found=owner, allowed=", ".join(Owner))
    if weight_seconds is not None and weight_seconds < 0:
        raise Invalid.field("weight_seconds", found=weight_seconds, allowed="0 or more, or null")
    facts = {
        "provider_id": provider_id,
        "machine_id": machine_id,
        "gpu_id": gpu_id,
        "reason": reason,
        "owner": owner,
        "weight_seconds": weight_seconds,
        "at": at,
    }
    return _record(Incident, source, facts)


def outcome_record(
    *, source: str, provider_id: UUID, machine_id: UUID, completed: bool | None, gpu_seconds: int, at: datetime
) -> Outcome:
    """How a job's attempt ended: true it completed, false by the provider's fault, null by somebody else's (no evidence).

    An incident under the same source says why; the two count once. Idempotent per source. Raises Conflict ``source_taken``,
    Invalid (gpu_seconds).
    """
    if gpu_seconds < 0:
        raise Invalid.field("gpu_seconds", found=gpu_seconds, allowed="0 or more")
    facts = {
        "provider_id": provider_id,
        "machine_id": machine_id,
        "completed": completed,
        "gpu_seconds": gpu_seconds,
        "at": at,
    }
    return _record(Outcome, source, facts)

"""Writing down what people do with money. Called by the verb itself, inside its transaction."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import connection, models

from accounts.models import Party, User
from billing.models import AuditEntry
from core.states import SYSTEM, actor_name

Facts = Mapping[str, Any]
AUTOMATIC = (SYSTEM, "demo")


def audit_record(
    *,
    verb: str,
    subject: models.Model,
    actor: object | None,
    before: Facts,
    after: Facts,
    now: datetime,
    reason: str = "",
    party: Party | None = None,
) -> AuditEntry | None:
    """One line of the audit trail; None (and nothing is written) for what happens by itself: timers, the chain, the demo.

    ``before`` and ``after``: the facts that the deed changed, in words and integers, account numbers masked. An actor that is
    a text (``command line``) is a person too, only not one we know. Raises RuntimeError outside of a transaction.
    """
    if actor is None or actor in AUTOMATIC:
        return None
    if not connection.in_atomic_block:
        raise RuntimeError("a deed and its audit entry are one transaction")
    return AuditEntry.objects.create(
        at=now,
        user=actor if isinstance(actor, User) else None,
        actor=actor_name(actor),
        verb=verb,
        subject_type=subject._meta.label_lower,
        subject_id=str(subject.pk),
        party=party,
        before=dict(before),
        after=dict(after),
        reason=reason,
    )

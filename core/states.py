"""A status moves in exactly one place: an allowed-moves table and one conditional UPDATE, with one event row.

    APPLICATION = Moves("status", {"draft": {"submitted", "withdrawn"}, …})
    APPLICATION.move(application, to="submitted", actor=user, reason="", at=now)

The UPDATE says ``WHERE id = … AND status = old``; a row count other than 1 means somebody else was there first.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import models

from core.errors import MoveNotAllowed, StaleState
from core.models import StatusEvent
from core.transactions import joined

SYSTEM = "system"
"""The actor of what happens by itself (sweepers, timers)."""


def actor_name(actor: object | None) -> str:
    """How an event row names who did it: ``user:<id>``, or the given string such as ``system`` or ``agent:<machine>``."""
    if actor is None:
        return SYSTEM
    if isinstance(actor, str):
        return actor
    return f"user:{getattr(actor, 'pk', actor)}"


@dataclass(frozen=True)
class Moves:
    """An allowed-moves table over one status field of one model."""

    field: str
    allowed: Mapping[str, Set[str]]

    @property
    def states(self) -> list[str]:
        return list(self.allowed)

    def final(self, status: str) -> bool:
        return not self.allowed[status]

    def check(self, *, old: str, new: str) -> None:
        if new not in self.allowed.get(old, set()):
            allowed = ", ".join(sorted(self.allowed.get(old, set()))) or "nothing: it is final"
            raise MoveNotAllowed(
                f"{self.field}: it is {old} and cannot become {new}.",
                fields={self.field: f"Found {old}; allowed from there: {allowed}."},
            )

    def move(
        self,
        row: models.Model,
        *,
        to: str,
        at: datetime,
        actor: object | None = None,
        reason: str = "",
        changes: Mapping[str, Any] | None = None,
    ) -> StatusEvent:
        """Move ``row`` from the status it carries to ``to``, with other column ``changes`` in the same UPDATE.

        Raises MoveNotAllowed (not in the table) or StaleState (the row in the database has moved on); nothing is written then.
        """
        old = getattr(row, self.field)
        self.check(old=old, new=to)
        values = {self.field: to, **(changes or {})}
        manager = type(row)._default_manager
        with joined():
            moved = manager.filter(pk=row.pk, **{self.field: old}).update(**values)
            if moved != 1:
                raise StaleState(f"{row._meta.verbose_name} {row.pk} is no longer {old}.")
            event = StatusEvent.objects.create(
                subject_type=row._meta.label_lower,
                subject_id=row.pk,
                field=self.field,
                old=old,
                new=to,
                actor=actor_name(actor),
                reason=reason,
                at=at,
            )
        for name, value in values.items():
            setattr(row, name, value)
        return event

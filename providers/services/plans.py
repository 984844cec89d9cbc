"""A machine's plan: what it is to do now. Every change bumps the version in its own transaction and rings the machine."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import F
from django.utils.translation import gettext as _

from core import bell
from core.errors import NotFound
from core.transactions import joined
from providers.models import Machine, PlanItem


def machine_channel(machine_id: UUID) -> str:
    """The doorbell channel a machine listens to."""
    return f"machine-{machine_id.hex}"


def _lock(machine_id: UUID) -> None:
    # The machine's row first, always: changes of one plan happen one after the other, and versions commit in order.
    if not Machine.objects.select_for_update(no_key=True).filter(pk=machine_id).values("pk").first():
        raise NotFound(_("There is no such machine."))


def _changed(machine_id: UUID) -> None:
    Machine.objects.filter(pk=machine_id).update(plan_version=F("plan_version") + 1)
    bell.ring(machine_channel(machine_id))


def plan_put(*, machine_id: UUID, kind: str, key: UUID, body: dict[str, Any], now: datetime) -> None:
    """Put an item into the machine's plan, or change its body. The same body again changes nothing."""
    with joined():
        _lock(machine_id)
        # Looked for under the machine's lock: no twin of ours writes it meanwhile.
        item = PlanItem.objects.filter(machine_id=machine_id, kind=kind, key=key).first()
        if item is None:
            PlanItem.objects.create(machine_id=machine_id, kind=kind, key=key, body=body, created_at=now)
        elif item.body == body:
            return
        else:
            PlanItem.objects.filter(pk=item.pk).update(body=body)
        _changed(machine_id)


def plan_remove(*, machine_id: UUID, kind: str, key: UUID, now: datetime) -> None:
    """Take an item out: the agent stops what it runs for it. Taking it out twice changes nothing."""
    with joined():
        _lock(machine_id)
        removed, _by_model = PlanItem.objects.filter(machine_id=machine_id, kind=kind, key=key).delete()
        if removed:
            _changed(machine_id)

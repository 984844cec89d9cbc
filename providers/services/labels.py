"""What owners call their machines."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import structlog
from django.db import transaction

from core.locks import lock_rows
from core.states import actor_name
from providers.labels import labels_clean, name_clean
from providers.models import Machine

log = structlog.get_logger(__name__)


def machine_rename(*, machine: Machine, name: str, actor: object, now: datetime) -> Machine:
    """Give the machine another name (1 to 64 printable characters). Raises Invalid (name)."""
    return _change(machine, "name", name_clean(name), actor, now)


def machine_label(*, machine: Machine, labels: Iterable[str], actor: object, now: datetime) -> Machine:
    """Replace the machine's labels. Raises Invalid (labels)."""
    return _change(machine, "labels", labels_clean(labels), actor, now)


def machine_label_add(*, machine: Machine, labels: Iterable[str], actor: object, now: datetime) -> Machine:
    """Add labels to those it has. Raises Invalid (labels); then it keeps the ones it had."""
    with transaction.atomic():
        for row in lock_rows(Machine.objects.all(), [machine.pk]):
            machine.labels = row.labels
        return machine_label(machine=machine, labels=[*machine.labels, *labels], actor=actor, now=now)


def _change(machine: Machine, field: str, value: object, actor: object, now: datetime) -> Machine:
    if getattr(machine, field) != value:
        Machine.objects.filter(pk=machine.pk).update(**{field: value})
        setattr(machine, field, value)
        log.info("machine_described", machine=str(machine.pk), field=field, actor=actor_name(actor), at=now.isoformat())
    return machine

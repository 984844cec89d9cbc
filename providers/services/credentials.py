"""Credentials change hands with an overlap: the old one works until the new one was used, so a lost reply locks nobody out.

The agent makes the new secret, keeps it on disk before it asks, and repeats the question until it is answered.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext as _

from core import bell
from core.errors import Conflict, Unauthorized
from core.locks import lock_rows
from core.models import StatusEvent
from core.states import actor_name
from providers.models import Machine, MachineCredential
from providers.selectors.credentials import credentials_forget
from providers.services.plans import machine_channel
from providers.states import MACHINE_LIVE


def machine_credential_rotate(*, machine: Machine, actor: object, now: datetime) -> Machine:
    """Have the machine change its credential now: its next sync asks for it. Raises Conflict ``machine_gone``."""
    if machine.status not in MACHINE_LIVE:
        raise Conflict(_("This machine has been removed; enrol it anew."), code="machine_gone")
    with transaction.atomic():
        Machine.objects.filter(pk=machine.pk).update(rotate_wanted_at=now)
        _event(machine.pk, "wanted", actor, now)
        credentials_forget(machine.pk)
        bell.ring(machine_channel(machine.pk))
    return machine


def machine_credential_add(
    *, machine_id: UUID, current_hash: bytes, new_hash: bytes, now: datetime
) -> MachineCredential:
    """Let the machine that speaks with one credential use another as well. The same again changes nothing.

    Raises Unauthorized ``credential_replaced`` (the current one no longer opens anything), Conflict ``credential_foreign``
    (somebody else has the new one, or it was taken back).
    """
    with transaction.atomic():
        lock_rows(Machine.objects.all(), [machine_id])
        live = MachineCredential.objects.filter(machine=machine_id, revoked_at__isnull=True)
        current = live.filter(secret_hash=current_hash).first()
        if current is None:
            raise Unauthorized(_("This credential was replaced by another."), code="credential_replaced")
        before = MachineCredential.objects.filter(secret_hash=new_hash).first()
        if before is not None:
            if before.machine_id != machine_id or before.revoked_at is not None or before.pk == current.pk:
                raise Conflict(_("This credential cannot be taken."), code="credential_foreign")
            return before
        # One that was announced before and never used was lost on the way.
        live.filter(used_at__isnull=True).exclude(pk=current.pk).update(revoked_at=now, replaced=True)
        return MachineCredential.objects.create(machine_id=machine_id, secret_hash=new_hash, created_at=now)


def machine_credential_use(*, credential_id: UUID, now: datetime) -> None:
    """A credential has opened a sync for the first time: the others of its machine are over, in every process at once."""
    with transaction.atomic():
        machine_id = MachineCredential.objects.values_list("machine_id", flat=True).get(pk=credential_id)
        lock_rows(Machine.objects.all(), [machine_id])
        first = MachineCredential.objects.filter(pk=credential_id, used_at__isnull=True, revoked_at__isnull=True)
        if not first.update(used_at=now):
            return
        others = MachineCredential.objects.filter(machine=machine_id, revoked_at__isnull=True).exclude(pk=credential_id)
        if others.update(revoked_at=now, replaced=True):
            _event(machine_id, "changed", f"agent:{machine_id}", now)
        credentials_forget(machine_id)
        bell.ring(machine_channel(machine_id), event="session")  # web processes forget; the agent need not hear it


def _event(machine_id: UUID, new: str, actor: object, now: datetime) -> None:
    StatusEvent.objects.create(
        subject_type=Machine._meta.label_lower,
        subject_id=machine_id,
        field="credential",
        old="",
        new=new,
        actor=actor_name(actor),
        reason="",
        at=now,
    )

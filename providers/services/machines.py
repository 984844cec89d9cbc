"""The life of a machine after enrolment: confirmed, drained, resumed, quarantined, retired, revoked."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from core import bell, news
from core.errors import Conflict, Invalid
from core.locks import lock_rows
from providers.models import Application, ApplicationGpuGroup, Gpu, GpuClaim, Machine, MachineCredential
from providers.places import region_of
from providers.selectors.credentials import credentials_forget
from providers.services.plans import machine_channel
from providers.states import GPU, MACHINE

MAX_REASON = 200


def _move(
    machine: Machine,
    to: str,
    *,
    actor: object,
    now: datetime,
    reason: str = "",
    changes: Mapping[str, Any] | None = None,
) -> Machine:
    reason = reason[:MAX_REASON]
    MACHINE.move(
        machine, to=to, at=now, actor=actor, reason=reason, changes={"status_reason": reason, **(changes or {})}
    )
    news.publish("machine.state", machine.pk, now=now)
    credentials_forget(machine.pk)
    return machine


def machine_confirm(*, machine: Machine, actor: object, now: datetime, country: str | None = None) -> Machine:
    """The owner says that a new machine is his: from now on it may take customers' jobs.

    ``country``: where it stands, if the approved application names several. Raises MoveNotAllowed, Invalid (country).
    """
    changes: dict[str, Any] = {"confirmed_at": now}
    if country is not None and country != machine.country:
        approved = sorted(_approved_countries(machine))
        if country not in approved:
            raise Invalid.field("country", found=country, allowed=", ".join(approved))
        changes |= {"country": country, "region": region_of(country)}
    with transaction.atomic():
        return _move(machine, Machine.Status.ACTIVE, actor=actor, now=now, changes=changes)


def _approved_countries(machine: Machine) -> set[str]:
    groups = ApplicationGpuGroup.objects.filter(
        application__party=machine.provider.party_id, application__status=Application.Status.APPROVED
    )
    return set(groups.values_list("country", flat=True))


def machine_drain(*, machine: Machine, actor: object, now: datetime, reason: str = "") -> Machine:
    """No new jobs; running ones finish."""
    with transaction.atomic():
        return _move(machine, Machine.Status.DRAINING, actor=actor, now=now, reason=reason)


def machine_resume(*, machine: Machine, actor: object, now: datetime, reason: str = "") -> Machine:
    """Back to work after a drain. Raises MoveNotAllowed for one that waits for confirmation or is in quarantine."""
    if machine.status != Machine.Status.DRAINING:
        MACHINE.check(old=machine.status, new="resumed")
    with transaction.atomic():
        return _move(machine, Machine.Status.ACTIVE, actor=actor, now=now, reason=reason)


def machine_quarantine(*, machine: Machine, actor: object, now: datetime, reason: str) -> Machine:
    """Something does not add up (two sessions of one identity, a sequence going back): no new jobs until staff looked."""
    with transaction.atomic():
        return _move(machine, Machine.Status.QUARANTINED, actor=actor, now=now, reason=reason)


def machine_unquarantine(*, machine: Machine, actor: object, now: datetime, reason: str) -> Machine:
    """Staff looked and found nothing wrong. Raises MoveNotAllowed unless it is in quarantine."""
    if machine.status != Machine.Status.QUARANTINED:
        MACHINE.check(old=machine.status, new="released")
    with transaction.atomic():
        return _move(machine, Machine.Status.ACTIVE, actor=actor, now=now, reason=reason)


def machine_retire(*, machine: Machine, actor: object, now: datetime, reason: str = "") -> Machine:
    """The owner takes the machine away for good; its place is free for another.

    Raises Conflict ``jobs_running`` while a customer's job has one of its GPUs: drain first.
    """
    with transaction.atomic():
        # Claims share-lock their GPUs (services.claims): with all of them locked here nobody claims behind our back.
        lock_rows(Gpu.objects.filter(machine=machine))
        if GpuClaim.objects.filter(gpu__machine=machine, kind=GpuClaim.Kind.JOB, live=True).exists():
            raise Conflict(
                _("A job is running on this machine. Drain it, and retire it when the job has ended."),
                code="jobs_running",
            )
        _move(machine, Machine.Status.RETIRED, actor=actor, now=now, reason=reason)
        _close(machine, actor=actor, now=now)
    return machine


def machine_revoke(*, machine: Machine, actor: object, now: datetime, reason: str) -> Machine:
    """Shut a machine out at once: its credential opens nothing any more, and its stream hears ``revoke``."""
    with transaction.atomic():
        _move(machine, Machine.Status.REVOKED, actor=actor, now=now, reason=reason)
        _close(machine, actor=actor, now=now)
    return machine


def _close(machine: Machine, *, actor: object, now: datetime) -> None:
    MachineCredential.objects.filter(machine=machine, revoked_at__isnull=True).update(revoked_at=now)
    for gpu in lock_rows(Gpu.objects.filter(machine=machine).exclude(status=Gpu.Status.RETIRED)):
        GPU.move(gpu, to=Gpu.Status.RETIRED, at=now, actor=actor, changes={"reason": Gpu.Reason.MACHINE_RETIRED})
    news.publish("machine.inventory", machine.pk, now=now)
    bell.ring(machine_channel(machine.pk), event="revoke")

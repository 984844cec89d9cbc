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
from core.models import StatusEvent
from core.states import actor_name
from providers.models import Gpu, GpuClaim, Machine, MachineCredential
from providers.places import region_of
from providers.selectors.applications import approved_countries
from providers.selectors.credentials import credentials_forget
from providers.services.judging import gpu_retire
from providers.services.plans import machine_channel
from providers.states import MACHINE

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
        approved = approved_countries(machine.provider)
        if country not in approved:
            raise Invalid.field("country", found=country, allowed=", ".join(approved) or "none: nothing is approved")
        changes |= {"country": country, "region": region_of(country)}
    with transaction.atomic():
        moved = machine.country != changes.get("country", machine.country)
        _move(machine, Machine.Status.ACTIVE, actor=actor, now=now, changes=changes)
        if moved:
            news.publish("machine.rejudge", machine.pk, now=now)  # the approved groups are counted per country
    return machine


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


def machine_shortfalls_accept(*, machine: Machine, actor: object, now: datetime, reason: str) -> Machine:
    """A reviewer has looked at what is below the application and lets it pass; other findings flag the machine again.

    Raises Conflict ``nothing_short``.
    """
    with transaction.atomic():
        (row,) = lock_rows(Machine.objects.all(), [machine.pk])
        if not set(row.shortfalls) - set(row.shortfalls_accepted):
            raise Conflict(_("Nothing of this machine is below its application."), code="nothing_short")
        Machine.objects.filter(pk=row.pk).update(shortfalls_accepted=row.shortfalls)
        StatusEvent.objects.create(
            subject_type=Machine._meta.label_lower,
            subject_id=row.pk,
            field="shortfalls",
            old="found",
            new="accepted",
            actor=actor_name(actor),
            reason=reason[:MAX_REASON],
            at=now,
        )
    machine.shortfalls_accepted = row.shortfalls
    return machine


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
        gpu_retire(gpu, reason=Gpu.Reason.MACHINE_RETIRED, actor=actor, now=now)
    news.publish("machine.inventory", machine.pk, now=now)
    bell.ring(machine_channel(machine.pk), event="revoke")

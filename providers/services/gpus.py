"""What people decide about single cards: ask to add one, accept it, decline it, give it up."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext as _

from accounts.services import notification_send
from core import news
from core.errors import Conflict, Invalid
from core.locks import lock_name, lock_rows
from core.states import actor_name
from providers.models import Gpu, GpuModel
from providers.services.judging import gpu_retire
from providers.states import GPU, MACHINE_LIVE

ASK_AGAIN = timedelta(days=7)
"""Between two requests for the same card: a declined one is not asked for every day."""


def gpu_request(*, gpu: Gpu, actor: object, note: str, now: datetime) -> Gpu:
    """The owner of a held card asks to add it to the approved fleet, or says why the card is his.

    When another machine had the card and no longer reports it, its owner is asked to give it up. Raises Invalid (note),
    Conflict ``not_held`` or ``already_requested`` (once in seven days).
    """
    note = note.strip()
    if len(note) > 1000:
        raise Invalid.field("note", found=f"{len(note)} characters", allowed="at most 1000 characters")
    with transaction.atomic():
        (row,) = lock_rows(Gpu.objects.all(), [gpu.pk])
        if row.status != Gpu.Status.NEEDS_REVIEW:
            raise Conflict(_("This card is not held for review."), code="not_held")
        if row.requested_at is not None and row.requested_at > now - ASK_AGAIN:
            raise Conflict(
                _("It was asked for already; it can be asked for again after a week."), code="already_requested"
            )
        row.requested_at, row.request_note, row.declined = now, note, ""
        row.save(update_fields=["requested_at", "request_note", "declined"])
        _seller_ask(row, now)
    return row


def _seller_ask(gpu: Gpu, now: datetime) -> None:
    others = Gpu.objects.filter(uuid=gpu.uuid, reason=Gpu.Reason.GONE, machine__status__in=MACHINE_LIVE)
    for other in others.exclude(machine=gpu.machine_id).select_related("machine__provider__party"):
        notification_send(
            kind="gpu_sold",
            party=other.machine.provider.party,
            context={"card": other.reported_name, "uuid": other.uuid, "machine": other.machine.name},
            url=f"/provider/machines/{other.machine_id}/",
            now=now,
        )


def gpu_accept(*, gpu: Gpu, model: GpuModel, reviewer: object, reason: str, now: datetime) -> Gpu:
    """A reviewer lets a held card in, as ``model``; the approved quantities no longer hold it back.

    A row of the same card in another machine that does not sell it is retired: the card is here now. Raises Invalid
    (reason), MoveNotAllowed, Conflict ``uuid_elsewhere`` while another machine offers the same card.
    """
    if not reason.strip():
        raise Invalid.field("reason", found=reason, allowed="why the card is accepted")
    with transaction.atomic():
        lock_name(f"gpu:{gpu.uuid}")
        others = lock_rows(Gpu.objects.filter(uuid=gpu.uuid).exclude(status=Gpu.Status.RETIRED).exclude(pk=gpu.pk))
        if any(other.status == Gpu.Status.ACTIVE for other in others):
            raise Conflict(_("Another machine offers this very card."), code="uuid_elsewhere")
        for other in others:
            if other.status == Gpu.Status.UNAVAILABLE or other.reason == Gpu.Reason.IDENTITY:
                gpu_retire(other, reason=Gpu.Reason.MOVED, actor=reviewer, now=now)
        changes = {"reason": "", "model_id": model.pk, "accepted": True, "declined": ""}
        GPU.move(gpu, to=Gpu.Status.ACTIVE, at=now, actor=reviewer, reason=reason, changes=changes)
        _answer(gpu, "gpu_accepted", reason, now)
        news.publish("machine.inventory", gpu.machine_id, now=now)
    return gpu


def gpu_decline(*, gpu: Gpu, reviewer: object, reason: str, now: datetime) -> Gpu:
    """A reviewer declines the owner's request; the card stays held, and its owner reads why. Raises Invalid (reason),
    Conflict ``not_requested``."""
    if not reason.strip():
        raise Invalid.field("reason", found=reason, allowed="why the card is declined: its owner reads it")
    with transaction.atomic():
        (row,) = lock_rows(Gpu.objects.all(), [gpu.pk])
        if row.status != Gpu.Status.NEEDS_REVIEW or row.requested_at is None or row.declined:
            raise Conflict(_("Nobody asks to add this card."), code="not_requested")
        row.declined = reason.strip()
        if row.reason != Gpu.Reason.UUID_ELSEWHERE:
            row.reason = Gpu.Reason.DECLINED
        row.save(update_fields=["declined", "reason"])
        _answer(row, "gpu_declined", reason, now)
    return row


def _answer(gpu: Gpu, kind: str, reason: str, now: datetime) -> None:
    if gpu.requested_at is None:
        return
    notification_send(
        kind=kind,
        party=gpu.machine.provider.party,
        context={"card": gpu.reported_name, "uuid": gpu.uuid, "machine": gpu.machine.name, "reason": reason},
        url=f"/provider/machines/{gpu.machine_id}/",
        now=now,
    )


def gpu_hold(*, gpu_id: UUID, now: datetime) -> bool:
    """An incumbent that another machine's claim put to the proof could not prove its card: it waits for a reviewer as well.

    False when it was not on offer any more.
    """
    with transaction.atomic():
        (row,) = lock_rows(Gpu.objects.all(), [gpu_id])
        if row.status != Gpu.Status.ACTIVE:
            return False
        reason = Gpu.Reason.IDENTITY
        GPU.move(row, to=Gpu.Status.NEEDS_REVIEW, at=now, reason=reason, changes={"reason": reason, "accepted": False})
        notification_send(
            kind="gpu_held",
            party=row.machine.provider.party,
            context={"card": row.reported_name, "uuid": row.uuid, "machine": row.machine.name},
            url=f"/provider/machines/{row.machine_id}/",
            now=now,
        )
        news.publish("machine.inventory", row.machine_id, now=now)
    return True


def gpu_release(*, gpu: Gpu, actor: object, now: datetime) -> Gpu:
    """The owner gives up a card that left the machine (sold, broken): its buyer's machine may offer it from now on.

    Raises Conflict ``still_there`` while the machine reports the card.
    """
    with transaction.atomic():
        lock_name(f"gpu:{gpu.uuid}")
        (row,) = lock_rows(Gpu.objects.all(), [gpu.pk])
        if row.reason != Gpu.Reason.GONE:
            raise Conflict(_("The machine still reports this card: take it out first."), code="still_there")
        gpu_retire(row, reason=Gpu.Reason.RELEASED, actor=actor_name(actor), now=now)
        news.publish("machine.inventory", row.machine_id, now=now)
    return row

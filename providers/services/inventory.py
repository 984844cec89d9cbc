"""What a machine reports it is made of, against the catalogue, the approved application and the other machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Q, Sum
from django.utils.translation import gettext as _

from agent_protocol.messages import Gpu as ReportedGpu
from agent_protocol.messages import Inventory, inventory_digest
from core import news
from core.errors import Conflict, Invalid
from core.locks import lock_name, lock_rows
from providers.matching import Match, match
from providers.models import Application, ApplicationGpuGroup, Gpu, GpuModel, Machine
from providers.selectors.catalogue import aliases_known
from providers.services.enrolment import host_columns
from providers.states import GPU, MACHINE_LIVE

Reason = Gpu.Reason
_BROKEN = {"lost": Reason.LOST, "error": Reason.ERROR}


@dataclass(frozen=True)
class Verdict:
    """What a reported card is to become."""

    status: str
    reason: str
    model_id: UUID | None


def machine_inventory_record(*, machine: Machine, inventory: Inventory, now: datetime) -> None:
    """Record a machine's cards: known ones are updated by UUID, new ones matched and judged, missing ones unavailable.

    Publishes ``machine.inventory``. Raises Conflict ``machine_gone`` for a retired or revoked machine.
    """
    with transaction.atomic():
        # One report of a provider at a time: the approved quantities are counted over all of its machines.
        lock_name(f"provider-fleet:{machine.provider_id}")
        for gpu in sorted(inventory.gpus, key=lambda gpu: gpu.uuid):
            lock_name(f"gpu:{gpu.uuid}")
        row = Machine.objects.select_for_update(no_key=True).get(pk=machine.pk)
        if row.status not in MACHINE_LIVE:
            raise Conflict(_("This machine has been removed; enrol it anew."), code="machine_gone")
        present = lock_rows(Gpu.objects.filter(machine=machine).exclude(status=Gpu.Status.RETIRED))
        _gone(present, {gpu.uuid for gpu in inventory.gpus}, now)
        _seen(row, {gpu.uuid: gpu for gpu in present}, inventory, now)
        columns = host_columns(inventory.host) | {
            "inventory_digest": inventory_digest(inventory),
            "inventory_at": now,
            "driver_version": inventory.driver_version or inventory.host.driver_version or "",
            "cuda_version": inventory.cuda_version or inventory.host.cuda_version or "",
        }
        Machine.objects.filter(pk=machine.pk).update(**columns)
        news.publish("machine.inventory", machine.pk, now=now)


def _gone(present: list[Gpu], reported: set[str], now: datetime) -> None:
    for gpu in present:
        if gpu.uuid not in reported:
            _become(gpu, Verdict(Gpu.Status.UNAVAILABLE, Reason.GONE, gpu.model_id), now)


def _seen(machine: Machine, known: Mapping[str, Gpu], inventory: Inventory, now: datetime) -> None:
    aliases = aliases_known()
    room = _room(machine)
    # Cards that are on offer already keep their place; newcomers share what is left, in a fixed order.
    order = sorted(inventory.gpus, key=lambda gpu: (not _on_offer(known.get(gpu.uuid)), gpu.uuid))
    for reported in order:
        before = known.get(reported.uuid)
        found = match(aliases, name=reported.name, memory_bytes=reported.memory_bytes)
        verdict = _judge(machine, reported, before, found, room, now)
        if verdict.status == Gpu.Status.ACTIVE and verdict.model_id is not None:
            room[verdict.model_id] -= 1
        columns = {
            "reported_name": reported.name or "",
            "memory_bytes": reported.memory_bytes,
            "health": reported.health,
            "last_seen_at": now,
            "details": reported.to_dict(),
        }
        if before is None:
            Gpu.objects.create(
                machine=machine,
                uuid=reported.uuid,
                status=verdict.status,
                reason=verdict.reason,
                model_id=verdict.model_id,
                first_seen_at=now,
                created_at=now,
                **columns,
            )
        else:
            Gpu.objects.filter(pk=before.pk).update(**columns)
            _become(before, verdict, now)


def _on_offer(gpu: Gpu | None) -> bool:
    return gpu is not None and gpu.status == Gpu.Status.ACTIVE


def _judge(
    machine: Machine, reported: ReportedGpu, before: Gpu | None, found: Match, room: Counter[UUID], now: datetime
) -> Verdict:
    """The first thing that stands against a card decides; an unreadable or broken card keeps the model it had."""
    model_id = found.model or (before.model_id if before is not None else None)
    if not _on_offer(before) and _elsewhere(machine, reported.uuid, before, now):
        return Verdict(Gpu.Status.NEEDS_REVIEW, Reason.UUID_ELSEWHERE, model_id)
    if reported.health in _BROKEN:
        return Verdict(Gpu.Status.UNAVAILABLE, _BROKEN[reported.health], model_id)
    if reported.mig_enabled or reported.uuid.startswith("MIG-"):
        return Verdict(Gpu.Status.UNAVAILABLE, Reason.MIG, model_id)
    if before is not None and before.accepted and model_id is not None:
        return Verdict(Gpu.Status.ACTIVE, "", model_id)
    if found.reason:
        return Verdict(Gpu.Status.NEEDS_REVIEW, found.reason, found.model)
    if found.model is None or found.model not in room:
        return Verdict(Gpu.Status.NEEDS_REVIEW, Reason.NOT_APPROVED, model_id)
    if room[found.model] < 1:
        return Verdict(Gpu.Status.NEEDS_REVIEW, Reason.OVER_APPROVED, model_id)
    return Verdict(Gpu.Status.ACTIVE, "", found.model)


def _elsewhere(machine: Machine, uuid: str, before: Gpu | None, now: datetime) -> bool:
    """Whether another live machine had this UUID first. Every renter sees UUIDs, so the incumbent never suffers for it.

    A card that the same provider took out of another of its machines has simply moved: its row there is retired.
    """
    others = Gpu.objects.filter(uuid=uuid, machine__status__in=MACHINE_LIVE).exclude(machine=machine)
    for other in others.exclude(status=Gpu.Status.RETIRED).select_related("machine"):
        newcomer = before is not None and before.first_seen_at < other.first_seen_at
        if newcomer or other.status == Gpu.Status.NEEDS_REVIEW:
            continue  # it is held itself, or never was on offer
        if other.machine.provider_id == machine.provider_id and other.reason == Reason.GONE:
            GPU.move(other, to=Gpu.Status.RETIRED, at=now, changes={"reason": Reason.MOVED})
            continue
        return True
    return False


def _room(machine: Machine) -> Counter[UUID]:
    """How many cards of each approved model the provider may still offer beside those on its other machines."""
    groups = ApplicationGpuGroup.objects.filter(
        application__party=machine.provider.party_id,
        application__status=Application.Status.APPROVED,
        gpu_model__isnull=False,
    )
    approved = groups.values_list("gpu_model").annotate(Sum("quantity"))
    room = Counter(dict(approved))
    # A card that is only away for now (lost, gone) comes back: it keeps its place.
    taken = (
        Gpu.objects.filter(machine__provider=machine.provider_id, machine__status__in=MACHINE_LIVE, accepted=False)
        .filter(Q(status=Gpu.Status.ACTIVE) | Q(status=Gpu.Status.UNAVAILABLE, reason__in=[Reason.LOST, Reason.ERROR]))
        .exclude(machine=machine)
    )
    for model_id in taken.values_list("model_id", flat=True):
        if model_id in room:
            room[model_id] -= 1
    return room


def _become(gpu: Gpu, verdict: Verdict, now: datetime) -> None:
    changes = {"reason": verdict.reason, "model_id": verdict.model_id}
    if gpu.status != verdict.status:
        GPU.move(
            gpu, to=verdict.status, at=now, actor=f"machine:{gpu.machine_id}", reason=verdict.reason, changes=changes
        )
    elif (gpu.reason, gpu.model_id) != (verdict.reason, verdict.model_id):
        Gpu.objects.filter(pk=gpu.pk).update(**changes)


def gpu_accept(*, gpu: Gpu, model: GpuModel, reviewer: object, reason: str, now: datetime) -> Gpu:
    """A reviewer lets a held card in, as ``model``; the approved quantities no longer hold it back.

    Raises Invalid (reason), MoveNotAllowed, Conflict ``uuid_elsewhere`` while another machine offers the same card.
    """
    if not reason.strip():
        raise Invalid.field("reason", found=reason, allowed="why the card is accepted")
    with transaction.atomic():
        lock_name(f"gpu:{gpu.uuid}")
        if Gpu.objects.filter(uuid=gpu.uuid, status=Gpu.Status.ACTIVE).exclude(pk=gpu.pk).exists():
            raise Conflict(_("Another machine offers this very card."), code="uuid_elsewhere")
        changes = {"reason": "", "model_id": model.pk, "accepted": True}
        GPU.move(gpu, to=Gpu.Status.ACTIVE, at=now, actor=reviewer, reason=reason, changes=changes)
        news.publish("machine.inventory", gpu.machine_id, now=now)
    return gpu

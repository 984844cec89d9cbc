"""Which of a machine's reported cards are on offer: against the catalogue, the approved groups and the other machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.db.models import Q, Sum

from agent_protocol.messages import Gpu as ReportedGpu
from core import news
from providers.matching import Match, match
from providers.models import Application, ApplicationGpuGroup, Gpu, Machine
from providers.selectors.catalogue import aliases_known
from providers.states import GPU, MACHINE_LIVE

Reason = Gpu.Reason
_BROKEN = {"lost": Reason.LOST, "error": Reason.ERROR}


@dataclass(frozen=True)
class Verdict:
    """What a reported card is to become."""

    status: str
    reason: str
    model_id: UUID | None


@dataclass
class Room:
    """How many cards of each model the provider may still offer in the machine's country; and what is approved anywhere."""

    left: Counter[UUID]
    anywhere: set[UUID] = field(default_factory=set)


def cards_judge(
    machine: Machine, reported: Mapping[str, ReportedGpu], known: Mapping[str, Gpu], now: datetime
) -> dict[str, Verdict]:
    """A verdict for each reported card, by UUID. Under the locks of the provider's fleet and of every UUID."""
    aliases, room = aliases_known(), room_of(machine)
    verdicts = {}
    # Cards that are on offer already keep their place; newcomers share what is left, in a fixed order.
    for uuid in sorted(reported, key=lambda each: (not _on_offer(known.get(each)), each)):
        card = reported[uuid]
        found = match(aliases, name=card.name, memory_bytes=card.memory_bytes)
        verdict = _judge(machine, card, known.get(uuid), found, room, now)
        if verdict.status == Gpu.Status.ACTIVE and verdict.model_id is not None:
            room.left[verdict.model_id] -= 1
        verdicts[uuid] = verdict
    return verdicts


def _on_offer(gpu: Gpu | None) -> bool:
    return gpu is not None and gpu.status == Gpu.Status.ACTIVE


def _judge(
    machine: Machine, reported: ReportedGpu, before: Gpu | None, found: Match, room: Room, now: datetime
) -> Verdict:
    """The first thing that stands against a card decides; an unreadable or broken card keeps the model it had."""
    model_id = found.model or (before.model_id if before is not None else None)
    if not _on_offer(before) and _elsewhere(machine, reported.uuid, before, now):
        return Verdict(Gpu.Status.NEEDS_REVIEW, Reason.UUID_ELSEWHERE, model_id)
    if before is not None and before.reason == Reason.IDENTITY:
        return Verdict(Gpu.Status.NEEDS_REVIEW, Reason.IDENTITY, model_id)  # until a reviewer has looked
    if reported.health in _BROKEN:
        return Verdict(Gpu.Status.UNAVAILABLE, _BROKEN[reported.health], model_id)
    if reported.mig_enabled or reported.uuid.startswith("MIG-"):
        return Verdict(Gpu.Status.UNAVAILABLE, Reason.MIG, model_id)
    if before is not None and before.accepted and model_id is not None:
        return Verdict(Gpu.Status.ACTIVE, "", model_id)
    held = _held(found, room)
    if not held:
        return Verdict(Gpu.Status.ACTIVE, "", found.model)
    declined = before is not None and before.declined
    return Verdict(
        Gpu.Status.NEEDS_REVIEW, Reason.DECLINED if declined else held, found.model if found.reason else model_id
    )


def _held(found: Match, room: Room) -> str:
    """Why the application does not cover this card; empty when it does."""
    if found.reason:
        return found.reason
    if found.model is None or found.model not in room.anywhere:
        return Reason.NOT_APPROVED
    if found.model not in room.left:
        return Reason.COUNTRY
    return Reason.OVER_APPROVED if room.left[found.model] < 1 else ""


def _elsewhere(machine: Machine, uuid: str, before: Gpu | None, now: datetime) -> bool:
    """Whether another live machine had this UUID first. Every renter sees UUIDs, so the incumbent never suffers for it.

    A card that the same provider took out of another of its machines has simply moved: its row there is retired.
    """
    others = Gpu.objects.filter(uuid=uuid, machine__status__in=MACHINE_LIVE).exclude(machine=machine)
    for other in others.exclude(status=Gpu.Status.RETIRED).select_related("machine"):
        newcomer = before is not None and before.first_seen_at < other.first_seen_at
        if newcomer or (other.status == Gpu.Status.NEEDS_REVIEW and other.reason != Reason.IDENTITY):
            continue  # it is held itself, or never was on offer
        if other.machine.provider_id == machine.provider_id and other.reason == Reason.GONE:
            gpu_retire(other, reason=Reason.MOVED, actor=f"machine:{machine.pk}", now=now)
            continue
        return True
    return False


def room_of(machine: Machine) -> Room:
    """What the approved groups leave for this machine beside the provider's other machines in its country."""
    groups = groups_of(machine)
    here = groups.filter(country=machine.country).values_list("gpu_model").annotate(Sum("quantity"))
    left = Counter(dict(here))
    # A card that is only away for now (lost, gone) comes back: it keeps its place.
    taken = (
        Gpu.objects.filter(machine__provider=machine.provider_id, machine__status__in=MACHINE_LIVE, accepted=False)
        .filter(machine__country=machine.country)
        .filter(Q(status=Gpu.Status.ACTIVE) | Q(status=Gpu.Status.UNAVAILABLE, reason__in=[Reason.LOST, Reason.ERROR]))
        .exclude(machine=machine)
    )
    for model_id in taken.values_list("model_id", flat=True):
        if model_id in left:
            left[model_id] -= 1
    return Room(left, set(groups.values_list("gpu_model_id", flat=True)))


def groups_of(machine: Machine):  # type: ignore[no-untyped-def]
    """The approved groups of the machine's provider that name a model of the catalogue."""
    return ApplicationGpuGroup.objects.filter(
        application__party=machine.provider.party_id,
        application__status=Application.Status.APPROVED,
        gpu_model__isnull=False,
    ).order_by()


def gpu_become(gpu: Gpu, verdict: Verdict, now: datetime) -> None:
    """Write a verdict; the same again writes nothing."""
    changes = {"reason": verdict.reason, "model_id": verdict.model_id}
    if gpu.status != verdict.status:
        GPU.move(
            gpu, to=verdict.status, at=now, actor=f"machine:{gpu.machine_id}", reason=verdict.reason, changes=changes
        )
    elif (gpu.reason, gpu.model_id) != (verdict.reason, verdict.model_id):
        Gpu.objects.filter(pk=gpu.pk).update(**changes)


def gpu_retire(gpu: Gpu, *, reason: str, actor: object, now: datetime) -> None:
    """The end of a card in this machine; its history stays with it. Publishes ``gpu.left``: others may have waited for it."""
    GPU.move(gpu, to=Gpu.Status.RETIRED, at=now, actor=actor, reason=reason, changes={"reason": reason})
    news.publish("gpu.left", gpu.pk, now=now)

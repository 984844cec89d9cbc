"""What a machine reports it is made of: recorded as told, judged by services.judging, and judged anew when rules change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from agent_protocol.errors import ProtocolError
from agent_protocol.messages import Gpu as ReportedGpu
from agent_protocol.messages import Inventory, inventory_digest
from core import clock, news
from core.errors import Conflict
from core.locks import lock_name, lock_rows
from providers.models import Gpu, Machine
from providers.services.enrolment import host_columns
from providers.services.judging import Verdict, cards_judge, gpu_become, gpu_retire, groups_of
from providers.shortfalls import Declared, Found, shortfalls
from providers.states import MACHINE_LIVE

Reason = Gpu.Reason


def machine_inventory_record(*, machine: Machine, inventory: Inventory, now: datetime) -> None:
    """Record a machine's cards: known ones are updated by UUID, new ones matched and judged, missing ones unavailable.

    A missing card whose slot holds a new one was swapped: it is retired with its history. Publishes ``machine.inventory``,
    and ``gpu.clash`` for each incumbent whose UUID this machine claims as a newcomer. Raises Conflict ``machine_gone`` for a
    retired or revoked machine.
    """
    reported = {gpu.uuid: gpu for gpu in inventory.gpus}
    with transaction.atomic():
        row = _locked(machine.pk, machine.provider_id, reported)
        if row.status not in MACHINE_LIVE:
            raise Conflict(_("This machine has been removed; enrol it anew."), code="machine_gone")
        present = _present(row)
        _gone(present, reported, now)
        known = {gpu.uuid: gpu for gpu in present}
        for uuid, verdict in cards_judge(row, reported, known, now).items():
            _seen(row, reported[uuid], known.get(uuid), verdict, now)
        columns = host_columns(inventory.host) | {
            "inventory_digest": inventory_digest(inventory),
            "inventory_at": now,
            "driver_version": inventory.driver_version or inventory.host.driver_version or "",
            "cuda_version": inventory.cuda_version or inventory.host.cuda_version or "",
        }
        Machine.objects.filter(pk=machine.pk).update(**columns)
        row.ram_bytes = inventory.host.ram_bytes
        _shortfalls_note(row)
        news.publish("machine.inventory", machine.pk, now=now)


def machine_rejudge(*, machine_id: UUID, now: datetime) -> None:
    """Judge a machine's cards anew as they were last reported: its country, the approval or another machine has changed."""
    with transaction.atomic():
        machine = Machine.objects.filter(pk=machine_id, status__in=MACHINE_LIVE).first()
        if machine is None:
            return
        uuids = Gpu.objects.filter(machine=machine).exclude(status=Gpu.Status.RETIRED).values_list("uuid", flat=True)
        row = _locked(machine.pk, machine.provider_id, list(uuids))
        if row.status not in MACHINE_LIVE:
            return
        known = {gpu.uuid: gpu for gpu in _present(row)}
        reported = {uuid: card for uuid, gpu in known.items() if gpu.reason != Reason.GONE and (card := _last(gpu))}
        for uuid, verdict in cards_judge(row, reported, known, now).items():
            _become(known[uuid], verdict, now)
        _shortfalls_note(row)
        news.publish("machine.inventory", row.pk, now=now)


def machine_rejudge_told(machine_id: UUID) -> None:
    """Consumer of machine.rejudge: one machine a transaction, as each takes the locks of its own provider's fleet."""
    machine_rejudge(machine_id=machine_id, now=clock.now())


def provider_fleet_rejudge(provider_id: UUID) -> None:
    """Consumer of provider.state: an approval may have made room for cards that are held."""
    held = Gpu.objects.filter(status=Gpu.Status.NEEDS_REVIEW, machine__provider=provider_id)
    _ask(held)


def gpu_left_rejudge(gpu_id: UUID) -> None:
    """Consumer of gpu.left: machines that report the same card and were held for it may have it now."""
    uuid = Gpu.objects.values_list("uuid", flat=True).get(pk=gpu_id)
    _ask(Gpu.objects.filter(uuid=uuid, status=Gpu.Status.NEEDS_REVIEW))


def _ask(held: QuerySet[Gpu]) -> None:
    machines = held.filter(machine__status__in=MACHINE_LIVE).order_by("machine_id").values_list("machine_id", flat=True)
    news.publish_many("machine.rejudge", list(machines.distinct()), now=clock.now())


def machine_network_record(*, machine_id: UUID, down_mbps: int | None, up_mbps: int | None, now: datetime) -> None:
    """Keep what a benchmark measured (Mbit/s), to hold it against the application. What was not measured stays as it was."""
    with transaction.atomic():
        machine = Machine.objects.select_for_update(no_key=True).select_related("provider").get(pk=machine_id)
        if down_mbps is not None:
            machine.network_down_mbps = down_mbps
        if up_mbps is not None:
            machine.network_up_mbps = up_mbps
        machine.save(update_fields=["network_down_mbps", "network_up_mbps"])
        _shortfalls_note(machine)


def _locked(machine_id: UUID, provider_id: UUID, uuids: Iterable[str]) -> Machine:
    # One report of a provider at a time: the approved quantities are counted over all of its machines.
    lock_name(f"provider-fleet:{provider_id}")
    for uuid in sorted(uuids):
        lock_name(f"gpu:{uuid}")
    return Machine.objects.select_for_update(no_key=True, of=("self",)).select_related("provider").get(pk=machine_id)


def _present(machine: Machine) -> list[Gpu]:
    return lock_rows(Gpu.objects.filter(machine=machine).exclude(status=Gpu.Status.RETIRED))


def _gone(present: list[Gpu], reported: Mapping[str, ReportedGpu], now: datetime) -> None:
    """Cards that are no longer reported: swapped where a new card sits in their slot, else away for now."""
    known = {gpu.uuid for gpu in present}
    new_slots = {card.pci_bus_id for uuid, card in reported.items() if uuid not in known} - {None}
    for gpu in [gpu for gpu in present if gpu.uuid not in reported]:
        if gpu.slot in new_slots:
            gpu_retire(gpu, reason=Reason.REPLACED, actor=f"machine:{gpu.machine_id}", now=now)
            present.remove(gpu)
        else:
            gpu_become(gpu, Verdict(Gpu.Status.UNAVAILABLE, Reason.GONE, gpu.model_id), now)


def _seen(machine: Machine, reported: ReportedGpu, before: Gpu | None, verdict: Verdict, now: datetime) -> None:
    columns = {
        "reported_name": reported.name or "",
        "memory_bytes": reported.memory_bytes,
        "health": reported.health,
        "last_seen_at": now,
        "details": reported.to_dict(),
    }
    if before is not None:
        Gpu.objects.filter(pk=before.pk).update(**columns)
        _become(before, verdict, now)
        return
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
    _clash_tell(reported.uuid, verdict, "", now)


def _become(gpu: Gpu, verdict: Verdict, now: datetime) -> None:
    before = gpu.reason
    gpu_become(gpu, verdict, now)
    _clash_tell(gpu.uuid, verdict, before, now)


def _clash_tell(uuid: str, verdict: Verdict, before: str, now: datetime) -> None:
    """When a newcomer begins to claim a card, its incumbent is asked to prove that it has it."""
    if verdict.reason != Reason.UUID_ELSEWHERE or before == Reason.UUID_ELSEWHERE:
        return
    for incumbent in Gpu.objects.filter(uuid=uuid, status=Gpu.Status.ACTIVE).values_list("pk", flat=True):
        news.publish("gpu.clash", incumbent, now=now)


def _last(gpu: Gpu) -> ReportedGpu | None:
    """The card as it was reported last; null when an earlier release kept something that this one cannot read."""
    try:
        return ReportedGpu.parse(gpu.details)
    except ProtocolError:
        return None


def _shortfalls_note(machine: Machine) -> None:
    """Hold the host against the approved groups of its country that its cards belong to."""
    models = Gpu.objects.filter(machine=machine).exclude(status=Gpu.Status.RETIRED).values("model_id")
    groups = groups_of(machine).filter(country=machine.country, gpu_model__in=models)
    declared = groups.values_list("host_memory_gb", "download_mbps", "upload_mbps")
    found = Found(machine.ram_bytes, machine.network_down_mbps, machine.network_up_mbps)
    codes = shortfalls((Declared(*each) for each in declared), found)
    if codes != machine.shortfalls:
        Machine.objects.filter(pk=machine.pk).update(shortfalls=codes)

"""Letters about machines that went offline and came back: one fault makes one letter, however many machines it hit.

A level, not an event: who is offline, should not be, and has not been told of is told. Twins, repetitions and late runs
find nothing left to tell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import Exists, F, OuterRef, QuerySet

from accounts.services import notification_send
from core.locks import lock_name
from providers.models import Machine, Provider
from providers.schedules import is_open
from providers.selectors import schedules_of
from providers.states import MACHINE_LIVE
from reliability.models import MachineHealth, OfflineNotice, OfflineNoticeMachine

log = structlog.get_logger(__name__)

SETTLE = timedelta(minutes=2)
"""What one fault hits falls silent, and returns, within two minutes: so long a letter waits for the others."""
OPENING = timedelta(minutes=10)
"""A host that is switched on for its hours needs some minutes: silence before that is not yet worth a letter."""
FLAPPING = timedelta(hours=1)
FLAPPING_WAIT = timedelta(minutes=15)
"""A machine that was told of within the hour is told of again only when it stays away: no letter for every blink."""
NAMED = 20
"""Machines named in a letter; what is beyond is counted."""


def offline_notices_send(*, now: datetime) -> int:
    """Tell every provider what is offline or back and has not been told; returns how many letters were written."""
    waiting = set(_untold().values_list("machine__provider", flat=True)) | set(
        _open()
        .exclude(machine__health__state="offline", machine__health__state_since=F("offline_since"))
        .values_list("machine__provider", flat=True)
    )
    return sum(
        _alone(verb, provider_id, now) for provider_id in sorted(waiting) for verb in (_tell_back, _tell_offline)
    )


def _alone(verb: Callable[[Provider, datetime], bool], provider_id: UUID, now: datetime) -> bool:
    """One provider's letter that cannot be written must not keep back everybody else's."""
    try:
        with transaction.atomic():
            lock_name(f"offline-notices:{provider_id}")
            return verb(Provider.objects.select_related("party").get(pk=provider_id), now)
    except Exception:
        log.exception("offline_notice_failed", provider=str(provider_id))
        return False


def _untold() -> QuerySet[MachineHealth]:
    """Machines in service that are offline, and whose silence is in no notice."""
    told = OfflineNoticeMachine.objects.filter(machine=OuterRef("machine"), offline_since=OuterRef("state_since"))
    rows = MachineHealth.objects.filter(state="offline", machine__status__in=MACHINE_LIVE)
    return rows.exclude(machine__status=Machine.Status.DRAINING).filter(~Exists(told))


def _open() -> QuerySet[OfflineNoticeMachine]:
    return OfflineNoticeMachine.objects.filter(closed_at__isnull=True)


def _tell_offline(provider: Provider, now: datetime) -> bool:
    rows = list(_untold().filter(machine__provider=provider).select_related("machine").order_by("machine__name", "pk"))
    wanted = _should_be_there(rows, now)
    blinked = _flapping([row.machine_id for row in wanted], now)
    ready = [row for row in wanted if row.machine_id not in blinked or row.state_since <= now - FLAPPING_WAIT]
    if not any(row.state_since <= now - SETTLE for row in ready):
        return False
    notice = OfflineNotice.objects.create(provider=provider, sent_at=now, created_at=now)
    OfflineNoticeMachine.objects.bulk_create(
        OfflineNoticeMachine(notice=notice, machine_id=row.machine_id, offline_since=row.state_since) for row in ready
    )
    _write(
        "machines_offline",
        provider,
        [row.machine for row in ready],
        now,
        since=min(row.last_seen_at for row in ready),
        query="?state=offline",
    )
    return True


def _should_be_there(rows: Sequence[MachineHealth], now: datetime) -> list[MachineHealth]:
    """Outside the hours in which it is offered nobody misses a machine."""
    schedules = schedules_of([row.machine for row in rows], now) if rows else {}
    return [
        row
        for row in rows
        if is_open(schedules[row.machine_id], now) and is_open(schedules[row.machine_id], now - OPENING)
    ]


def _flapping(machine_ids: Sequence[UUID], now: datetime) -> set[UUID]:
    told = OfflineNoticeMachine.objects.filter(machine__in=machine_ids, offline_since__gt=now - FLAPPING)
    return set(told.values_list("machine_id", flat=True))


def _tell_back(provider: Provider, now: datetime) -> bool:
    rows = list(
        _open()
        .filter(notice__provider=provider)
        .select_related("machine__health")
        .order_by("machine__name", "pk")
        .select_for_update(of=("self",))
    )
    over = [row for row in rows if _is_over(row)]
    back = [row for row in rows if row not in over and row.machine.health.state != "offline"]
    due = any(row.machine.health.state_since <= now - SETTLE for row in back)
    closed = over + (back if due else [])
    OfflineNoticeMachine.objects.filter(pk__in=[row.pk for row in closed]).update(closed_at=now)
    if due:
        away = [row.machine for row in rows if row not in closed]
        _write(
            "machines_back",
            provider,
            [row.machine for row in back],
            now,
            away=[machine.name for machine in away[:NAMED]],
            away_count=len(away),
        )
    return due


def _is_over(row: OfflineNoticeMachine) -> bool:
    """Nobody waits for its return: it left for good, or it was back and is silent anew (a notice of its own)."""
    health = row.machine.health
    anew = health.state == "offline" and health.state_since != row.offline_since
    return row.machine.status not in MACHINE_LIVE or anew


def _write(
    kind: str, provider: Provider, machines: Sequence[Machine], now: datetime, *, query: str = "", **context: object
) -> None:
    one = machines[0] if len(machines) == 1 else None
    names = [machine.name for machine in machines]
    notification_send(
        kind=kind,
        party=provider.party,
        context={"count": len(names), "names": names[:NAMED], "more": max(0, len(names) - NAMED), **context},
        url=f"/provider/machines/{one.pk}/" if one else f"/provider/machines/{query}",
        now=now,
    )

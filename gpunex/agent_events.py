"""POST /agent/v1/events and …/attempts/<id>/logs: what must arrive, at least once, and is dealt with once.

POST …/attempts/<id>/secrets: what must not arrive twice.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID

import structlog
from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse, JsonResponse

from agent_protocol.errors import ProtocolError
from agent_protocol.fields import json_write
from agent_protocol.messages import (
    AttemptEnded,
    AttemptSecrets,
    BenchmarkFailed,
    BenchmarkReport,
    Event,
    EventBatch,
    GpuXid,
    LogChunk,
    OrphanFound,
    RegistryLogin,
    SecretsRequest,
)
from agent_protocol.messages.events import EventBody
from agent_protocol.reasons import FAULT_XIDS
from benchmarks.services import run_fail, run_report
from core import clock
from core.errors import DomainError
from gpunex.agent_door import agent_view, read, session_of
from gpunex.models import EventSeen
from marketplace.services import attempt_end, attempt_secrets_collect, log_append
from providers.models import Gpu, Machine
from reliability.services import incident_record

log = structlog.get_logger(__name__)

ACCEPTED = "accepted"
XID_WEIGHT_SECONDS = 3600
"""A hardware fault weighs as much as an hour's outage of that GPU: the least a reset and a check take."""
NO_INSTANT = datetime(2000, 1, 1, tzinfo=UTC)
"""Stands for an agent's instant that lies outside the days we keep (a dead clock): still the same at each repetition."""


@agent_view
def events(request: HttpRequest) -> HttpResponse:
    session = session_of(request)
    batch = read(request, EventBatch)
    now = clock.now()
    outcomes = {event.id: event_take(machine=session.machine, event=event, now=now) for event in batch.events}
    return JsonResponse(
        {
            "accepted": [name for name, outcome in outcomes.items() if outcome == ACCEPTED],
            "refused": [{"id": name, "code": outcome} for name, outcome in outcomes.items() if outcome != ACCEPTED],
        }
    )


@agent_view
def logs(request: HttpRequest, attempt_id: UUID) -> HttpResponse:
    session = session_of(request)
    chunk = read(request, LogChunk)
    following = log_append(machine=session.machine, attempt_id=attempt_id, chunk=chunk, now=clock.now())
    return JsonResponse({"next_offset": following})


@agent_view
def secrets(request: HttpRequest, attempt_id: UUID) -> HttpResponse:
    session = session_of(request)
    wanted = read(request, SecretsRequest)
    found = attempt_secrets_collect(
        machine=session.machine, attempt_id=attempt_id, token=wanted.token, boot_id=wanted.boot_id, now=clock.now()
    )
    login = None if found.login is None else RegistryLogin(**found.login)
    reply = AttemptSecrets(environment=found.environment, registry_login=login)
    answer = HttpResponse(json_write(reply.to_dict()), content_type="application/json")
    answer["Cache-Control"] = "no-store"
    return answer


def event_take(*, machine: Machine, event: Event, now: datetime) -> str:
    """Deal with one event unless that has happened; returns ``accepted`` or the code of its refusal.

    The row that says so is written first, in the transaction that deals with it: of two deliveries one waits here. What a
    verb keeps as evidence of a refused report is kept; everything else of it has been rolled back by the verb itself.
    """
    event_id, occurred = UUID(event.id), _instant(event.occurred_at, now)
    with transaction.atomic():
        if not _claim(machine, event, event_id, occurred, now):
            return _outcome(machine, event_id, occurred)
        try:
            _handle(machine, event, now)
        except ProtocolError as error:
            outcome = "invalid"
            log.warning("event_invalid", kind=event.kind, machine=str(machine.id), field=error.field)
        except DomainError as error:
            outcome = error.code[:64]
            log.warning("event_refused", kind=event.kind, machine=str(machine.id), code=error.code)
        else:
            return ACCEPTED
        EventSeen.objects.filter(machine_id=machine.id, event_id=event_id, occurred_at=occurred).update(outcome=outcome)
        return outcome


def events_forget(*, now: datetime) -> int:
    """Delete rows whose agent had no usable clock; the others go with their partition. Returns how many."""
    too_old = now - timedelta(days=EventSeen.KEEP_DAYS)
    return EventSeen.objects.filter(occurred_at=NO_INSTANT, seen_at__lt=too_old).delete()[0]


def _instant(text: str, now: datetime) -> datetime:
    """The agent's own instant. It only tells repetitions from new events; what happened when is the server's to say."""
    found = datetime.fromisoformat(text).astimezone(UTC)
    within = now - timedelta(days=EventSeen.KEEP_DAYS) <= found <= now + timedelta(days=1)
    return found if within else NO_INSTANT


_CLAIM = f"""
INSERT INTO {EventSeen._meta.db_table} (machine_id, event_id, occurred_at, seen_at, kind, outcome)
VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING
"""


def _claim(machine: Machine, event: Event, event_id: UUID, occurred: datetime, now: datetime) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(_CLAIM, [machine.id, event_id, occurred, now, event.kind, ACCEPTED])
        return cursor.rowcount == 1


def _outcome(machine: Machine, event_id: UUID, occurred: datetime) -> str:
    return EventSeen.objects.get(machine_id=machine.id, event_id=event_id, occurred_at=occurred).outcome


def _handle(machine: Machine, event: Event, now: datetime) -> None:
    body = event.typed_body()
    HANDLERS[type(body)](machine, body, now)


def _attempt_ended(machine: Machine, body: AttemptEnded, now: datetime) -> None:
    attempt_end(machine=machine, event=body, now=now)


def _benchmark_report(machine: Machine, body: BenchmarkReport, now: datetime) -> None:
    run_report(machine=machine, report=body, now=now)


def _benchmark_failed(machine: Machine, body: BenchmarkFailed, now: datetime) -> None:
    run_fail(machine=machine, failure=body, now=now)


def _gpu_xid(machine: Machine, body: GpuXid, now: datetime) -> None:
    """A hardware fault is the provider's incident; other Xids are mostly the application's own doing and only logged."""
    log.info("gpu_xid", machine=str(machine.id), gpu=body.uuid, xid=body.xid, at=body.at)
    gpu = Gpu.objects.filter(machine=machine, uuid=body.uuid).exclude(status=Gpu.Status.RETIRED).first()
    if gpu is None or body.xid not in FAULT_XIDS:
        return
    incident_record(
        source=f"xid:{gpu.id}:{body.xid}:{body.at}",
        provider_id=machine.provider_id,
        machine_id=machine.id,
        gpu_id=gpu.id,
        reason="gpu_fault",
        owner="provider",
        weight_seconds=XID_WEIGHT_SECONDS,
        at=now,
    )


def _orphan(machine: Machine, body: OrphanFound, now: datetime) -> None:
    log.warning("orphan_removed", machine=str(machine.id), name=body.name)


HANDLERS: dict[type[EventBody], Callable[[Machine, EventBody, datetime], None]] = {
    AttemptEnded: _attempt_ended,  # type: ignore[dict-item]
    BenchmarkReport: _benchmark_report,  # type: ignore[dict-item]
    BenchmarkFailed: _benchmark_failed,  # type: ignore[dict-item]
    GpuXid: _gpu_xid,  # type: ignore[dict-item]
    OrphanFound: _orphan,  # type: ignore[dict-item]
}

"""Stored events as evidence for the formula: a fixed number of queries for any number of providers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from uuid import UUID

from agent_protocol.reasons import Owner
from benchmarks.selectors import comparable_runs, service_of
from core import spans
from core.models import StatusEvent
from core.spans import Span
from providers import schedules
from providers.models import Gpu, Machine, Schedule
from reliability.models import Incident, MachineHealth, OnlineInterval, Outcome, PlatformOutage
from reliability.scoring import WINDOW, Evidence, GpuEvidence, JobEvidence, consistency_of

SERVING = {"providers.machine": "active", "providers.gpu": "active"}
ENDED = frozenset({"retired", "revoked"})
BEGINNING = datetime.min.replace(tzinfo=UTC)


def evidence_of(provider_ids: Sequence[UUID], *, as_of: datetime) -> dict[UUID, Evidence]:
    """Everything that is known of these providers at ``as_of``, as the formula takes it."""
    since = as_of - WINDOW
    machines = {row.pk: row for row in Machine.objects.filter(provider__in=provider_ids)}
    gpus = list(Gpu.objects.filter(machine__in=machines, first_seen_at__lte=as_of).order_by("pk"))
    gpu_ids = [gpu.pk for gpu in gpus]
    history = _status_history([*machines, *gpu_ids], as_of)
    declared = _declared_of(machines.values(), since, as_of)
    online = _online_of(machines, since, as_of)
    outages = list(
        PlatformOutage.objects.filter(ended_at__gt=since, started_at__lt=as_of).values_list("started_at", "ended_at")
    )
    service = service_of(gpu_ids, until=as_of)
    runs = comparable_runs(gpu_ids, as_of=as_of)
    found: dict[UUID, list[GpuEvidence]] = defaultdict(list)
    for gpu in gpus:
        if gpu.pk not in service:
            continue  # it was never fit to be offered, so nothing was promised
        of_machine = _serving(history[gpu.machine_id], BEGINNING, machines[gpu.machine_id].status, as_of)
        of_gpu = _serving(history[gpu.pk], gpu.first_seen_at, gpu.status, as_of)
        in_service = spans.intersect(of_machine.promised, of_gpu.promised)
        in_service = spans.clip(in_service, service[gpu.pk].since, as_of)
        measured = [{name: float(value) for name, value in run.items()} for run in runs.get(gpu.pk, [])]
        found[machines[gpu.machine_id].provider_id].append(
            GpuEvidence(
                gpu_id=gpu.pk,
                machine_id=gpu.machine_id,
                declared=spans.intersect(declared[gpu.machine_id], in_service),
                online=online[gpu.machine_id],
                unavailable=[*of_machine.away, *of_gpu.away, *service[gpu.pk].delisted],
                excused=outages,
                consistency=consistency_of(measured),
            )
        )
    jobs = _jobs_of(provider_ids, since, as_of)
    return {
        provider_id: Evidence(as_of, tuple(found[provider_id]), tuple(jobs[provider_id]))
        for provider_id in provider_ids
    }


class _Serving:
    """From a status history: promised since it was first active until it ended; away while it was not active in between."""

    def __init__(self, promised: list[Span], away: list[Span]) -> None:
        self.promised, self.away = promised, away


def _serving(history: Sequence[tuple[datetime, str, str]], since: datetime, present: str, until: datetime) -> _Serving:
    """history: (at, old, new), oldest first. Without one the present status has stood from the start."""
    steps = [(since, history[0][1] if history else present), *((at, new) for at, _old, new in history)]
    ends = [at for at, _status in steps[1:]] + [until]
    periods = [(start, end, status) for (start, status), end in zip(steps, ends, strict=True)]
    active = [(start, end) for start, end, status in periods if status == "active"]
    if not active:
        return _Serving([], [])
    ended = min((start for start, _end, status in periods if status in ENDED), default=until)
    promised = [(active[0][0], ended)]
    return _Serving(promised, spans.subtract(promised, active))


def _status_history(ids: Sequence[UUID], as_of: datetime) -> dict[UUID, list[tuple[datetime, str, str]]]:
    rows = StatusEvent.objects.filter(
        subject_type__in=list(SERVING), subject_id__in=ids, field="status", at__lte=as_of
    ).order_by("at", "id")
    found: dict[UUID, list[tuple[datetime, str, str]]] = defaultdict(list)
    for subject, at, old, new in rows.values_list("subject_id", "at", "old", "new"):
        found[subject].append((at, old, new))
    return found


def _declared_of(machines: Iterable[Machine], since: datetime, until: datetime) -> dict[UUID, list[Span]]:
    """When each machine is offered by its own schedule versions or, before those, its provider's; without any, always."""
    rows = list(machines)
    by_owner: dict[UUID, list[Schedule]] = defaultdict(list)
    chosen = Schedule.objects.filter(machine__in=rows) | Schedule.objects.filter(
        provider__in={machine.provider_id for machine in rows}
    )
    for schedule in chosen.order_by("-version"):
        owner = schedule.machine_id or schedule.provider_id
        if owner is not None:
            by_owner[owner].append(schedule)
    return {
        machine.pk: declared_between([*by_owner[machine.pk], *by_owner[machine.provider_id]], since, until)
        for machine in rows
    }


def declared_between(versions: Sequence[Schedule], since: datetime, until: datetime) -> list[Span]:
    """The open time of a chain of versions, the prevailing one first; each counts from its ``scored_from`` on."""
    found: list[Span] = []
    end = until
    for schedule in versions:
        start = max(schedule.scored_from, since)
        if start < end:
            found += schedules.intervals(schedule.weekly, start, end)
            end = start
    if since < end and not versions:
        found.append((since, end))
    elif since < end:
        # The first declaration is taken to have held before it was stored.
        found += schedules.intervals(versions[-1].weekly, since, end)
    return spans.union(found)


def _online_of(machine_ids: Mapping[UUID, Machine], since: datetime, until: datetime) -> dict[UUID, list[Span]]:
    """Online intervals; an open one ends at the last heartbeat (the formula closes short silences)."""
    rows = OnlineInterval.objects.filter(machine__in=machine_ids, started_at__lt=until).exclude(ended_at__lt=since)
    seen = dict(MachineHealth.objects.filter(pk__in=machine_ids).values_list("pk", "last_seen_at"))
    found: dict[UUID, list[Span]] = defaultdict(list)
    for machine_id, start, end in rows.values_list("machine_id", "started_at", "ended_at"):
        last = end or max(seen.get(machine_id, start), start)
        # An instant is not a span: a machine heard of once was there for that heartbeat.
        found[machine_id].append((start, max(last, start + datetime.resolution)))
    return found


def _jobs_of(provider_ids: Sequence[UUID], since: datetime, until: datetime) -> dict[UUID, list[JobEvidence]]:
    """Completions and the provider's own faults, each source once."""
    found: dict[UUID, list[JobEvidence]] = defaultdict(list)
    sources = set()
    outcomes = Outcome.objects.filter(provider__in=provider_ids, at__gte=since, at__lte=until)
    for row in outcomes.order_by("at", "source"):
        sources.add(row.source)
        if row.completed is not None:
            found[row.provider_id].append(
                JobEvidence(row.source, row.machine_id, row.completed, row.gpu_seconds, row.at)
            )
    incidents = Incident.objects.filter(
        provider__in=provider_ids, owner=Owner.PROVIDER, weight_seconds__isnull=False, at__gte=since, at__lte=until
    ).order_by("at", "source")
    for incident in incidents:
        if incident.source not in sources:
            found[incident.provider_id].append(
                JobEvidence(incident.source, incident.machine_id, False, incident.weight_seconds or 0, incident.at)
            )
    return found

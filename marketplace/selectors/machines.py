"""A provider's fleet as its owner works with it: filtered, a page at a time, each machine with how it stands."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import redis
from django.db.models import Count, Exists, OuterRef, Q, QuerySet

from core.cursors import cursor_decode, cursor_encode
from marketplace.models import Listing
from marketplace.standing import Facts, Standing, standings
from marketplace.visibility import WANTED
from providers.models import Gpu, GpuClaim, Machine, Provider
from providers.selectors import machines_of
from reliability.models import MachineHealth
from reliability.selectors import health_of, occupied_of, seen_last, silent_together

PAGE = 50
SCOPE = "fleet"


@dataclass(frozen=True)
class FleetFilters:
    """``state``: a key of STATES, or empty for all. ``label`` and ``name`` empty: any."""

    state: str = ""
    label: str = ""
    name: str = ""

    @property
    def any(self) -> bool:
        return bool(self.state or self.label or self.name)


_HIDDEN = Listing.objects.filter(machine=OuterRef("pk"), visible=False).exclude(hidden_reason__in=WANTED)
_HELD = Gpu.objects.filter(machine=OuterRef("pk"), status__in=["needs_review", "unavailable"])
_AWAY = Q(health__isnull=True) | Q(health__state__in=["suspect", "offline"])
STATES: Mapping[str, Q] = {
    "online": Q(health__state="online"),
    "offline": _AWAY,
    "draining": Q(status="draining"),
    "attention": _AWAY
    | Q(status__in=["pending_confirmation", "quarantined"])
    | ~Q(degraded=[])
    | Q(Exists(_HIDDEN))
    | Q(Exists(_HELD)),
}


@dataclass(frozen=True)
class FleetRow:
    """``health`` null: never heard of. ``busy``: mean utilisation of the cards in percent, null where none says it."""

    machine: Machine
    gpus: Sequence[Gpu]
    health: MachineHealth | None
    listings: Sequence[Listing]
    standings: Sequence[Standing]
    jobs: int
    busy: float | None

    @property
    def state(self) -> str:
        return self.health.state if self.health else "never"

    @property
    def cards(self) -> list[tuple[str, str, int]]:
        """(model, status, how many), equal cards together."""
        found = Counter((gpu.model.name if gpu.model else gpu.reported_name, gpu.status) for gpu in self.gpus)
        return [(name, status, count) for (name, status), count in sorted(found.items())]


@dataclass(frozen=True)
class FleetPage:
    rows: Sequence[FleetRow]
    next_cursor: str | None
    found: int


@dataclass(frozen=True)
class FleetFigures:
    """The whole fleet in numbers. ``labels``: each label with how many machines have it, by name."""

    machines: int
    by_state: Mapping[str, int]
    gpus: int
    labels: Sequence[tuple[str, int]] = field(default=())


def fleet_figures(provider: Provider) -> FleetFigures:
    """Counts over the provider's live machines."""
    machines = machines_of(provider)
    counts = (
        machines.order_by()
        .prefetch_related(None)
        .aggregate(machines=Count("pk"), **{name: Count("pk", filter=rule) for name, rule in STATES.items()})
    )
    labels: Counter[str] = Counter()
    for found in machines.order_by().prefetch_related(None).exclude(labels=[]).values_list("labels", flat=True):
        labels.update(found)
    gpus = Gpu.objects.filter(machine__in=machines.order_by().prefetch_related(None)).exclude(status="retired").count()
    total = counts.pop("machines")
    return FleetFigures(total, counts, gpus, sorted(labels.items(), key=lambda each: each[0].casefold()))


def fleet_page(provider: Provider, filters: FleetFilters, *, cursor: str = "", most: int = PAGE) -> FleetPage:
    """A page of at most ``most`` machines by name. Raises Invalid (cursor)."""
    machines = _filtered(provider, filters)
    found = machines.order_by().prefetch_related(None).count()
    if cursor:
        name, last = cursor_decode(cursor, scope=SCOPE)
        machines = machines.filter(Q(name__gt=name) | Q(name=name, pk__gt=str(last)))
    rows = list(machines.order_by("name", "pk")[: most + 1])
    page = rows[:most]
    following = cursor_encode([page[-1].name, str(page[-1].pk)], scope=SCOPE) if len(rows) > most else None
    return FleetPage(fleet_rows(page), following, found)


def _filtered(provider: Provider, filters: FleetFilters) -> QuerySet[Machine]:
    machines = machines_of(provider)
    if filters.state in STATES:
        machines = machines.filter(STATES[filters.state])
    if filters.label:
        machines = machines.filter(labels__contains=[filters.label])
    if filters.name:
        machines = machines.filter(name__icontains=filters.name)
    return machines


def fleet_rows(machines: Sequence[Machine]) -> list[FleetRow]:
    """Machines (with their GPUs) and everything a row says of them: as many statements for one as for fifty."""
    ids = [machine.pk for machine in machines]
    health = health_of(ids)
    listings: dict[UUID, list[Listing]] = defaultdict(list)
    for listing in Listing.objects.filter(machine__in=ids).select_related("gpu_model").order_by("gpu_model__name"):
        listings[listing.machine_id].append(listing)
    claims = GpuClaim.objects.filter(gpu__machine__in=ids, live=True, kind=GpuClaim.Kind.JOB)
    jobs = dict(claims.values_list("gpu__machine").annotate(Count("holder", distinct=True)))
    away = [row for row in health.values() if row.state == "offline"]
    together = dict(
        zip(
            [row.machine_id for row in away],
            silent_together([(row.machine_id, row.state_since) for row in away]),
            strict=True,
        )
    )
    telemetry = _telemetry(ids)
    occupied = occupied_of(gpu.pk for machine in machines for gpu in machine.gpus.all())
    found = []
    for machine in machines:
        mine, gpus = health.get(machine.pk), list(machine.gpus.all())
        facts = Facts(
            status=machine.status,
            status_reason=machine.status_reason,
            health=mine.state if mine else "never",
            last_seen_at=mine.last_seen_at if mine else None,
            degraded=machine.degraded,
            together=together.get(machine.pk, 0),
            jobs=jobs.get(machine.pk, 0),
            cards=[gpu.reason for gpu in gpus if gpu.status != Gpu.Status.ACTIVE]
            + [occupied[gpu.pk].reason for gpu in gpus if gpu.pk in occupied],
            hidden=[each.hidden_reason for each in listings[machine.pk] if not each.visible],
            listed=sum(each.visible for each in listings[machine.pk]),
        )
        busy = _busy(telemetry.get(machine.pk, [])) if mine and mine.state == "online" else None
        found.append(
            FleetRow(machine, gpus, mine, listings[machine.pk], standings(facts), jobs.get(machine.pk, 0), busy)
        )
    return found


def _telemetry(ids: Sequence[UUID]) -> dict[UUID, list[dict[str, Any]]]:
    try:
        return seen_last(ids)
    except redis.RedisError:
        return {}


def _busy(telemetry: Sequence[Mapping[str, Any]]) -> float | None:
    known = [value for gpu in telemetry if (value := gpu.get("utilization_percent")) is not None]
    return sum(known) / len(known) if known else None

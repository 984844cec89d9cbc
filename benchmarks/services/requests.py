"""Asking for runs: at enrolment, after a change, weekly, again after a failure, and when an owner wants a retest."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from random import Random, SystemRandom
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext as _

from accounts.models import User
from accounts.selectors import party_of
from benchmarks.models import Run
from benchmarks.selectors.suites import suite_at
from benchmarks.states import RUN, RUN_OPEN
from benchmarks.verification import BASELINE_RUNS
from core import clock, jobs
from core.bulk import each
from core.errors import Conflict, NotFound
from core.ids import uuid7
from core.locks import lock_rows
from core.states import SYSTEM, actor_name
from providers.models import Gpu, Machine
from providers.services import gpu_hold

MEASURED_MACHINES = (Machine.Status.PENDING_CONFIRMATION, Machine.Status.ACTIVE, Machine.Status.DRAINING)
"""A new machine is measured before its owner has confirmed it, so that the verdict is there when it is."""
RETEST_EVERY = timedelta(hours=1)
"""A retest occupies the card for minutes; an owner who repairs something wants one soon, not in a loop."""
WEEKLY = timedelta(days=7)
JITTER_HOURS = 24
"""Spread over a day by the card's id, so that a fleet that enrolled at once is not measured at once."""
CLASH_LOST = ("gpu_missing", "no_cuda")
"""What a host says that does not have the card."""
CLASH_ATTEMPTS = 3
"""A busy or interrupted card may answer a little later; one that never answers is not there."""
SURPRISES_PER_DAY = 1 / 14
"""Per card: with the weekly run, three measurements in a fortnight, of which nobody knows the third."""
SECRET = SystemRandom()
BACKOFF = (timedelta(minutes=2), timedelta(minutes=10), timedelta(hours=1), timedelta(hours=6))
"""Waits after a run that failed or got no answer; the last repeats, so that a host that comes back is measured by itself."""


def runs_request(
    *,
    gpus: Iterable[Gpu],
    trigger: str,
    now: datetime,
    requested_by: str = SYSTEM,
    attempt: int = 1,
    wait: timedelta = timedelta(0),
) -> int:
    """Ask for one run per GPU; a GPU that has an open run keeps that one (a law). Returns how many were asked for."""
    suite = suite_at(now)
    wanted = [
        Run(
            id=uuid7(),
            gpu=gpu,
            machine_id=gpu.machine_id,
            suite=suite,
            trigger=trigger,
            requested_by=requested_by,
            attempt=attempt,
            requested_at=now,
            not_before=now + wait,
        )
        for gpu in gpus
    ]
    with transaction.atomic():
        Run.objects.bulk_create(wanted, ignore_conflicts=True)
        made = Run.objects.filter(pk__in=[run.pk for run in wanted]).count()
        if made and not wait:
            jobs.enqueue("benchmarks.runs_dispatch")
    return made


def runs_request_for_machine(machine_id: UUID) -> None:
    """Consumer of machine.inventory: new cards get their first run, a changed driver a new baseline, gone cards none."""
    now = clock.now()
    machine = Machine.objects.get(pk=machine_id)
    with transaction.atomic():
        runs_withdraw(now=now, machine=machine)
        if machine.status not in MEASURED_MACHINES:
            return
        gpus = list(Gpu.objects.filter(machine=machine, status=Gpu.Status.ACTIVE))
        latest = _latest_judged(gpus)
        new = [gpu for gpu in gpus if gpu.pk not in latest]
        changed = [gpu for gpu in gpus if gpu.pk in latest and latest[gpu.pk].driver_version != machine.driver_version]
        runs_request(gpus=new, trigger=Run.Trigger.ENROLMENT, now=now)
        runs_request(gpus=changed, trigger=Run.Trigger.CHANGE, now=now)
        # The machine has just been heard of: what waits after a failure need not wait longer.
        hurried = Run.objects.filter(gpu__in=gpus, status=Run.Status.REQUESTED, not_before__gt=now)
        if hurried.update(not_before=now):
            jobs.enqueue("benchmarks.runs_dispatch")


def _latest_judged(gpus: list[Gpu]) -> dict[UUID, Run]:
    rows = Run.objects.filter(gpu__in=gpus, status=Run.Status.VERIFIED).order_by("gpu", "-reported_at").distinct("gpu")
    return {run.gpu_id: run for run in rows}


def runs_withdraw(*, now: datetime, machine: Machine | None = None) -> int:
    """End requests for cards that left for good (of one machine, or of all); runs on hosts are ended by runs_expire."""
    gone = Run.objects.filter(gpu__status=Gpu.Status.RETIRED, status=Run.Status.REQUESTED)
    if machine is not None:
        gone = gone.filter(machine=machine)
    with transaction.atomic():
        rows = lock_rows(gone)
        for run in rows:
            _drop(run, reason="withdrawn", now=now)
    return len(rows)


def _drop(run: Run, *, reason: str, now: datetime) -> None:
    """End a request that no machine has heard of."""
    RUN.move(run, to=Run.Status.FAILED, at=now, reason=reason, changes={"reason": reason, "ended_at": now})


def runs_request_weekly(*, now: datetime) -> int:
    """Ask again for cards whose last verified run is over a week old (plus up to a day by id)."""
    due = Gpu.objects.filter(status=Gpu.Status.ACTIVE, machine__status__in=MEASURED_MACHINES)
    due = due.exclude(benchmark_runs__status__in=RUN_OPEN).filter(benchmark_runs__status=Run.Status.VERIFIED)
    due = due.exclude(benchmark_runs__status=Run.Status.VERIFIED, benchmark_runs__reported_at__gt=now - WEEKLY)
    latest = _latest_judged(list(due.distinct()))
    gpus = Gpu.objects.in_bulk(latest)
    ready = [
        gpus[gpu_id]
        for gpu_id, run in latest.items()
        if run.reported_at and run.reported_at + weekly_wait(gpu_id) <= now
    ]
    return runs_request(gpus=ready, trigger=Run.Trigger.WEEKLY, now=now)


def weekly_wait(gpu_id: UUID) -> timedelta:
    """A week and this card's own jitter."""
    return WEEKLY + timedelta(hours=gpu_id.int % JITTER_HOURS)


def runs_request_surprise(*, now: datetime, random: Random = SECRET) -> int:
    """Ask for cards drawn by lot, each SURPRISES_PER_DAY times a day on average: whoever tunes a card for its known day is met.

    Called once an hour. Cards without a verdict, and those that wait for a run, are left out.
    """
    lots = Gpu.objects.filter(
        status=Gpu.Status.ACTIVE,
        machine__status__in=MEASURED_MACHINES,
        benchmark_runs__status=Run.Status.VERIFIED,
    ).exclude(benchmark_runs__status__in=RUN_OPEN)
    ids = list(lots.values_list("pk", flat=True).distinct())
    drawn = [gpu_id for gpu_id in ids if random.random() < SURPRISES_PER_DAY / 24]
    return runs_request(gpus=Gpu.objects.filter(pk__in=drawn), trigger=Run.Trigger.SURPRISE, now=now)


def runs_request_for_suite(*, now: datetime) -> int:
    """Ask for cards that the suite in force has not measured yet, spread over a day from its beginning: a new baseline each."""
    suite = suite_at(now)
    measured = Run.objects.filter(suite=suite, status=Run.Status.VERIFIED).values("gpu")
    due = Gpu.objects.filter(status=Gpu.Status.ACTIVE, machine__status__in=MEASURED_MACHINES)
    due = due.filter(benchmark_runs__status=Run.Status.VERIFIED).exclude(benchmark_runs__status__in=RUN_OPEN)
    ready = [
        gpu
        for gpu in due.exclude(pk__in=measured).distinct()
        if suite.valid_from + timedelta(hours=gpu.pk.int % JITTER_HOURS) <= now
    ]
    return runs_request(gpus=ready, trigger=Run.Trigger.CHANGE, now=now)


def run_repeat(run: Run, *, now: datetime) -> None:
    """Ask again, after a wait that grows, for a run that failed or got no answer.

    A run that was to prove a card against another machine's claim is not repeated for ever: the card is held then.
    """
    if run.trigger == Run.Trigger.CLASH and (run.reason in CLASH_LOST or run.attempt >= CLASH_ATTEMPTS):
        gpu_hold(gpu_id=run.gpu_id, now=now)
        return
    wait = BACKOFF[min(run.attempt, len(BACKOFF)) - 1]
    runs_request(
        gpus=[run.gpu], trigger=run.trigger, now=now, requested_by=run.requested_by, attempt=run.attempt + 1, wait=wait
    )


def run_follow_up(run: Run, *, first_bad: bool, now: datetime) -> None:
    """After a verdict: a first bad run is repeated at once, and a card without a baseline is measured until it has one."""
    comparable = Run.objects.filter(
        gpu=run.gpu_id, suite=run.suite_id, driver_version=run.driver_version, status=Run.Status.VERIFIED
    )
    if first_bad:
        runs_request(gpus=[run.gpu], trigger=Run.Trigger.RETEST, now=now)
    elif comparable.count() < BASELINE_RUNS:
        runs_request(gpus=[run.gpu], trigger=run.trigger, now=now)


def run_retest(*, gpu: Gpu, actor: User, now: datetime) -> Run:
    """The owner wants a card measured again. Once an hour per card.

    Raises NotFound (not the actor's card), Conflict ``not_measurable``, ``already_requested`` or ``retest_too_soon``.
    """
    if gpu.machine.provider.party_id != party_of(actor).pk:
        raise NotFound(_("There is no such GPU."))
    with transaction.atomic():
        lock_rows(Gpu.objects.all(), [gpu.pk])
        gpu.refresh_from_db(fields=["status"])
        if gpu.status != Gpu.Status.ACTIVE or gpu.machine.status not in MEASURED_MACHINES:
            raise Conflict(_("This GPU cannot be measured now: it is not active."), code="not_measurable")
        if Run.objects.filter(gpu=gpu, status__in=RUN_OPEN).exclude(attempt__gt=1, status="requested").exists():
            raise Conflict(_("A benchmark of this GPU is already on its way."), code="already_requested")
        last = (
            Run.objects.filter(gpu=gpu, trigger=Run.Trigger.RETEST, requested_by__startswith="user:", attempt=1)
            .order_by("-requested_at")
            .first()
        )
        if last is not None and last.requested_at > now - RETEST_EVERY:
            wait = int((last.requested_at + RETEST_EVERY - now).total_seconds() // 60) + 1
            raise Conflict(
                _("A retest is possible once an hour; the next one in %(minutes)s minutes.") % {"minutes": wait},
                code="retest_too_soon",
            )
        # A repetition that waits for its turn gives way: the owner has just mended something.
        for waiting in lock_rows(Run.objects.filter(gpu=gpu, status=Run.Status.REQUESTED)):
            _drop(waiting, reason="superseded", now=now)
        runs_request(gpus=[gpu], trigger=Run.Trigger.RETEST, now=now, requested_by=actor_name(actor))
        return Run.objects.get(gpu=gpu, status=Run.Status.REQUESTED)


def machine_retest(*, machine: Machine, actor: User, now: datetime) -> int:
    """The owner wants all active cards of a machine measured again; returns how many are.

    Raises NotFound (not the actor's), Conflict ``no_gpus``, and what ``run_retest`` raises if it refuses every card.
    """
    gpus = Gpu.objects.filter(machine=machine, status=Gpu.Status.ACTIVE).select_related("machine__provider")
    result = each(gpus.order_by("pk"), lambda gpu: run_retest(gpu=gpu, actor=actor, now=now))
    if result.done:
        return len(result.done)
    if result.refused:
        raise Conflict(result.refused[0].why, code="not_retested")
    raise Conflict(_("This machine has no active GPU to measure."), code="no_gpus")

"""Runs on hosts: offered under a claim and a plan item, observed in syncs, ended when they fail or fall silent."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import transaction

from agent_protocol.messages import BenchmarkFailed
from benchmarks.models import Run
from benchmarks.services.requests import MEASURED_MACHINES, run_repeat, runs_withdraw
from benchmarks.states import RUN, RUN_ON_HOST
from benchmarks.verification import SIMULATED_ROUNDS, SIMULATED_SIZE, matrix_size
from core import jobs
from core.errors import Conflict, NotFound
from core.locks import lock_name_now
from providers.models import Gpu, Machine
from providers.services import gpus_claim, gpus_release, plan_put, plan_remove

log = structlog.get_logger(__name__)

OFFER_SECONDS = 600
"""Time for the machine to begin: it may be unreachable, or pulling the benchmark image."""
GRACE_SECONDS = 120
"""After the suite's own time limit, for the report to arrive."""
BUSY_WAIT = timedelta(seconds=60)
BATCH = 500
GIB = Decimal(1024**3)


def runs_dispatch(*, now: datetime) -> int:
    """Offer due runs to their machines: one per machine at a time, never on a GPU that somebody has. Returns how many."""
    due = Run.objects.filter(
        status=Run.Status.REQUESTED,
        not_before__lte=now,
        gpu__status=Gpu.Status.ACTIVE,
        machine__status__in=MEASURED_MACHINES,
    ).exclude(machine__benchmark_runs__status__in=RUN_ON_HOST)
    offered = 0
    machines: set[UUID] = set()
    for run_id, machine_id in due.order_by("not_before", "id").values_list("pk", "machine_id")[:BATCH]:
        if machine_id not in machines and run_offer(run_id=run_id, now=now):
            machines.add(machine_id)
            offered += 1
    return offered


def run_offer(*, run_id: UUID, now: datetime) -> bool:
    """Claim the GPU and put the run into the machine's plan. False when it has to wait; nothing but its turn moved then."""
    with transaction.atomic():
        run = (
            Run.objects.select_for_update(skip_locked=True, of=("self",))
            .select_related("gpu", "machine", "suite")
            .filter(pk=run_id, status=Run.Status.REQUESTED)
            .first()
        )
        if run is None or not lock_name_now(f"benchmarks:machine:{run.machine_id}"):
            return False
        if Run.objects.filter(machine=run.machine_id, status__in=RUN_ON_HOST).exists():
            return False
        try:
            gpus_claim(gpu_ids=[run.gpu_id], kind="benchmark", holder=run.pk, now=now)
        except Conflict:
            # A customer's job has the card, or it is not on offer now: never measured under a job.
            Run.objects.filter(pk=run.pk).update(not_before=now + BUSY_WAIT)
            return False
        _put(run, now=now)
        return True


def _put(run: Run, *, now: datetime) -> None:
    challenge = challenge_new(run)
    RUN.move(
        run,
        to=Run.Status.OFFERED,
        at=now,
        changes={
            "challenge": challenge,
            "driver_version": run.machine.driver_version,
            "offered_at": now,
            "lease_until": now + timedelta(seconds=OFFER_SECONDS),
        },
    )
    body = {
        "run_id": str(run.pk),
        "gpu_uuid": run.gpu.uuid,
        "suite_version": run.suite.version,
        "challenge": challenge,
        "time_limit_s": run.suite.time_limit_s,
        "image": settings.BENCHMARK_IMAGE or None,
    }
    plan_put(machine_id=run.machine_id, kind="benchmark", key=run.pk, body=body, now=now)


def challenge_new(run: Run) -> dict[str, Any]:
    """A fresh nonce; the matrices' size by the card's memory (the smallest where it is unknown). The seed is made at the
    start, as nothing may be computed before."""
    memory_gib = Decimal(run.gpu.memory_bytes or 0) / GIB
    if run.machine.simulated:
        n, rounds = SIMULATED_SIZE, min(SIMULATED_ROUNDS, run.suite.rounds)
    else:
        n, rounds = matrix_size(memory_gib), run.suite.rounds
    return {"nonce": secrets.token_hex(16), "n": n, "rounds": rounds}


def run_observe(*, machine: Machine, run_id: UUID, state: str, progress: int | None, now: datetime) -> None:
    """What a sync says of a run: waiting | running | done | failed. Begins a run and keeps its lease; decides nothing.

    The report or failure itself arrives as an event. A run that is not on this machine is none of its business.
    """
    run = Run.objects.select_related("suite").filter(pk=run_id, machine=machine, status__in=RUN_ON_HOST).first()
    if run is None or state not in ("running", "done"):
        return
    if run.status == Run.Status.OFFERED:
        try:
            RUN.move(
                run,
                to=Run.Status.RUNNING,
                at=now,
                actor=f"agent:{machine.pk}",
                changes={
                    "started_at": now,
                    "progress_percent": progress,
                    "lease_until": now + timedelta(seconds=run.suite.time_limit_s + GRACE_SECONDS),
                },
            )
        except Conflict:
            return  # its report or its end was quicker
    elif progress != run.progress_percent:
        Run.objects.filter(pk=run.pk, status=Run.Status.RUNNING).update(progress_percent=progress)


def run_leave_host(run: Run, *, to: str, reason: str, now: datetime, changes: dict[str, Any] | None = None) -> None:
    """Move a run off its machine and give back what it held. In the caller's transaction."""
    actor = f"agent:{run.machine_id}" if to == Run.Status.REPORTED else None
    RUN.move(
        run,
        to=to,
        at=now,
        actor=actor,
        reason=reason,
        changes={"reason": reason, "lease_until": None, **(changes or {})},
    )
    gpus_release(holder=run.pk, now=now)
    plan_remove(machine_id=run.machine_id, kind="benchmark", key=run.pk, now=now)
    jobs.enqueue("benchmarks.runs_dispatch")


def run_locked(*, run_id: str | UUID, machine: Machine) -> Run:
    """The run, locked, if it is this machine's. Raises NotFound."""
    run = (
        Run.objects.select_for_update(of=("self",))
        .select_related("gpu__model", "suite", "machine")
        .filter(pk=run_id, machine=machine)
        .first()
    )
    if run is None:
        raise NotFound("This machine has no such benchmark run.")
    return run


def nonce_check(run: Run, nonce: str) -> None:
    """Only who was given the challenge may answer it. Raises Conflict ``stale_token``."""
    if not secrets.compare_digest(str(run.challenge.get("nonce", "")), nonce):
        raise Conflict("The nonce is not that of this run's challenge.", code="stale_token")


def run_fail(*, machine: Machine, failure: BenchmarkFailed, now: datetime) -> Run:
    """The agent could not measure. Asked for again after a wait. Twice is harmless.

    Raises NotFound, Conflict ``stale_token`` (nonce) or ``stale_state`` (the run ended otherwise).
    """
    with transaction.atomic():
        run = run_locked(run_id=failure.run_id, machine=machine)
        nonce_check(run, failure.nonce)
        if run.status == Run.Status.FAILED:
            return run
        if run.status not in RUN_ON_HOST:
            raise Conflict(f"The run is {run.status} already.", code="stale_state")
        run_leave_host(run, to=Run.Status.FAILED, reason=failure.reason, now=now, changes={"ended_at": now})
        run_repeat(run, now=now)
        return run


def runs_expire(*, now: datetime) -> int:
    """End runs that fell silent (and ask again), and those of cards or machines that left. Returns how many ended."""
    silent = Run.objects.filter(status__in=RUN_ON_HOST, lease_until__lte=now)
    gone = Run.objects.filter(status__in=RUN_ON_HOST, gpu__status=Gpu.Status.RETIRED)
    ended = runs_withdraw(now=now)
    for run_id in [*silent.values_list("pk", flat=True)[:BATCH], *gone.values_list("pk", flat=True)[:BATCH]]:
        with transaction.atomic():
            run = (
                Run.objects.select_for_update(skip_locked=True, of=("self",))
                .select_related("gpu", "machine")
                .filter(pk=run_id, status__in=RUN_ON_HOST)
                .first()
            )
            if run is None:
                continue
            if run.gpu.status == Gpu.Status.RETIRED:
                run_leave_host(run, to=Run.Status.FAILED, reason="withdrawn", now=now, changes={"ended_at": now})
            elif run.lease_until is not None and run.lease_until <= now:
                run_leave_host(run, to=Run.Status.EXPIRED, reason="no_answer", now=now, changes={"ended_at": now})
                run_repeat(run, now=now)
            else:
                continue
            ended += 1
    return ended

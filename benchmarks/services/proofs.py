"""The challenge of a run: started, committed to, opened by its machine; decided by recomputing rows, in a worker.

Each step may be lost and repeated: the same attempt gets the same answer, and nothing is written twice. The instants are the
platform's own. What is refused here moves nothing; what is wrong with the rows themselves shows in the verdict.
"""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta
from uuid import UUID

import structlog
from django.db import transaction

from agent_protocol.challenge import merkle_root_from, seeds_of
from agent_protocol.messages import BenchCommit, BenchOpen, BenchStart
from benchmarks.models import Proof, Run
from benchmarks.proving import first_wrong, openings_choose
from benchmarks.services.dispatch import nonce_check, run_locked
from benchmarks.services.reports import run_review_open, run_verify
from benchmarks.states import RUN_ON_HOST
from core import jobs
from core.errors import Conflict, Invalid
from core.locks import lock_rows
from providers.models import Gpu, Machine

log = structlog.get_logger(__name__)

MAX_STARTS = 5
"""Beginnings per run: an agent may be restarted, a machine too; a host that begins a sixth time is looking for luck."""
UNANSWERED = (Run.Status.FAILED, Run.Status.EXPIRED)
WITHHELD_IN_A_ROW = 2
WITHHELD_WITHIN = timedelta(days=1)
"""How far back ended runs are looked at; repetitions follow each other within hours."""
NEVER_STARTED = ("withdrawn", "superseded")
DECIDED_AT_ONCE = 20
"""Proofs per job: each takes seconds of a processor."""


def _run_on_host(*, machine: Machine, run_id: UUID, nonce: str) -> Run:
    """The run, locked. Raises NotFound, Conflict ``stale_token`` or ``stale_state``."""
    run = run_locked(run_id=run_id, machine=machine)
    nonce_check(run, nonce)
    if run.status not in RUN_ON_HOST:
        raise Conflict(f"The run is {run.status} already.", code="stale_state")
    return run


def run_on_host_check(*, machine: Machine, run_id: UUID, nonce: str) -> None:
    """Whether this machine is measuring this run now. Raises NotFound, Conflict ``stale_token`` or ``stale_state``."""
    with transaction.atomic():
        _run_on_host(machine=machine, run_id=run_id, nonce=nonce)


def proof_start(*, machine: Machine, run_id: UUID, start: BenchStart, now: datetime) -> Proof:
    """A fresh seed, and the clock runs. The same attempt gets its seed again, and its clock has gone on.

    Raises NotFound; Conflict ``stale_token``, ``stale_state`` or ``too_many_starts``.
    """
    with transaction.atomic():
        run = _run_on_host(machine=machine, run_id=run_id, nonce=start.nonce)
        known = Proof.objects.filter(run=run, attempt=UUID(start.attempt)).first()
        if known is not None:
            return known
        if Proof.objects.filter(run=run).count() >= MAX_STARTS:
            raise Conflict("This run was begun too often.", code="too_many_starts")
        return Proof.objects.create(
            run=run,
            attempt=UUID(start.attempt),
            seed=secrets.token_hex(32),
            n=run.challenge["n"],
            rounds=run.challenge["rounds"],
            started_at=now,
        )


def _current(run: Run, attempt: str) -> Proof:
    """The attempt, if it is the run's newest. Raises Conflict ``stale_attempt``."""
    newest = Proof.objects.select_for_update().filter(run=run).order_by("-started_at", "-id").first()
    if newest is None or newest.attempt != UUID(attempt):
        raise Conflict("This attempt was not started, or another was started after it.", code="stale_attempt")
    return newest


def proof_commit(*, machine: Machine, run_id: UUID, commit: BenchCommit, now: datetime) -> Proof:
    """Take the roots, stop the clock, and choose the rows to open.

    Raises NotFound; Conflict ``stale_token``, ``stale_state``, ``stale_attempt`` or ``already_committed`` (to other roots);
    Invalid naming roots.
    """
    with transaction.atomic():
        run = _run_on_host(machine=machine, run_id=run_id, nonce=commit.nonce)
        proof = _current(run, commit.attempt)
        roots = list(commit.roots)
        if proof.committed_at is not None:
            if proof.roots != roots:
                raise Conflict("This attempt is committed to other roots.", code="already_committed")
            return proof
        if len(roots) != proof.rounds:
            raise Invalid.field("roots", found=f"{len(roots)} roots", allowed=f"one per round, {proof.rounds}")
        proof.roots, proof.product_s, proof.committed_at = roots, commit.product_s, now
        chosen = openings_choose(proof.n, proof.rounds, secrets.SystemRandom())
        proof.rows = [list(each) for each in chosen]
        proof.save(update_fields=["roots", "product_s", "committed_at", "rows"])
        return proof


def proof_open(*, machine: Machine, run_id: UUID, opening: BenchOpen, now: datetime) -> Proof:
    """Take the leaves of the chosen rows, if they lead to the roots. What they are worth is decided later.

    Raises NotFound; Conflict ``stale_token``, ``stale_state``, ``stale_attempt``, ``not_committed`` or ``already_opened``
    (with other leaves); Invalid naming openings.
    """
    with transaction.atomic():
        run = _run_on_host(machine=machine, run_id=run_id, nonce=opening.nonce)
        proof = _current(run, opening.attempt)
        if proof.committed_at is None:
            raise Conflict("This attempt has no roots yet.", code="not_committed")
        leaves = _leaves_of(proof, opening)
        if proof.opened_at is not None:
            if proof.leaves != leaves:
                raise Conflict("This attempt is opened with other leaves.", code="already_opened")
            return proof
        proof.leaves, proof.opened_at = leaves, now
        proof.save(update_fields=["leaves", "opened_at"])
        jobs.enqueue("benchmarks.proofs_decide")
        return proof


def _leaves_of(proof: Proof, opening: BenchOpen) -> list[str]:
    """The leaves in the order of the chosen rows. Raises Invalid naming what does not fit the commitment."""
    if [[each.round, each.row] for each in opening.openings] != proof.rows:
        raise Invalid.field("openings", found="other rows", allowed="the rows that the commit's answer named, in order")
    for number, each in enumerate(opening.openings):
        path = [bytes.fromhex(sibling) for sibling in each.path]
        found = merkle_root_from(bytes.fromhex(each.leaf), each.row, proof.n, path)
        if found is None or found.hex() != proof.roots[each.round]:
            raise Invalid.field(f"openings.{number}", found="a path to another root", allowed="the committed root")
    return [each.leaf for each in opening.openings]


def proofs_decide(*, now: datetime) -> int:
    """Decide opened proofs, oldest first. Returns how many."""
    waiting = Proof.objects.filter(opened_at__isnull=False, decided_at__isnull=True).order_by("opened_at")
    ids = list(waiting.values_list("pk", flat=True)[:DECIDED_AT_ONCE])
    return sum(proof_decide(proof_id=proof_id, now=now) for proof_id in ids)


def proof_decide(*, proof_id: UUID, now: datetime) -> bool:
    """Recompute the opened rows, and judge the run if its report waits for this. False: somebody else was quicker."""
    proof = Proof.objects.select_related("run").get(pk=proof_id)
    if proof.decided_at is not None:
        return False
    # Seconds of arithmetic, outside of any transaction: what is read here cannot change any more.
    nonce = str(proof.run.challenge["nonce"])
    seeds = seeds_of(nonce, proof.seed, [bytes.fromhex(root) for root in proof.roots])
    leaves = {(each, row): bytes.fromhex(leaf) for (each, row), leaf in zip(proof.rows, proof.leaves, strict=True)}
    wrong = first_wrong(seeds, proof.n, leaves)
    with transaction.atomic():
        run = Run.objects.select_for_update(of=("self",)).select_related("gpu__model", "suite").get(pk=proof.run_id)
        decided = Proof.objects.filter(pk=proof.pk, decided_at__isnull=True).update(
            decided_at=now, wrong=None if wrong is None else list(wrong)
        )
        if decided and run.status == Run.Status.REPORTED:
            run_verify(run, now=now)
    if wrong is not None:
        log.warning("proof_wrong", run=str(proof.run_id), machine=str(proof.run.machine_id), row=wrong)
    return bool(decided)


def proofs_withheld_review(*, now: datetime) -> int:
    """Put cards in review whose last two runs ended after the roots had come and before they were opened.

    One such end is a restart or a broken line; who fears the opening does it each time. Returns how many.
    """
    ends = Run.objects.filter(status__in=UNANSWERED, verdicts__isnull=True, ended_at__gt=now - WITHHELD_WITHIN)
    found = 0
    for gpu_id in set(ends.filter(proofs__committed_at__isnull=False).values_list("gpu_id", flat=True)):
        with transaction.atomic():
            lock_rows(Gpu.objects.all(), [gpu_id])
            ended = Run.objects.filter(gpu=gpu_id, ended_at__isnull=False).exclude(reason__in=NEVER_STARTED)
            last = list(ended.select_related("gpu__model", "machine").order_by("-ended_at", "-id")[:WITHHELD_IN_A_ROW])
            if len(last) == WITHHELD_IN_A_ROW and all(_withheld(run) for run in last):
                found += run_review_open(last[0], code="proof_withheld", now=now)
    return found


def _withheld(run: Run) -> bool:
    proofs = list(run.proofs.all())
    committed = any(proof.committed_at for proof in proofs)
    return run.status in UNANSWERED and committed and not any(proof.opened_at for proof in proofs)

"""Taking a report and judging it: evidence is stored as it came, the verdict is derived from it in the same transaction."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from django.conf import settings
from django.db import transaction
from django.db.models import Sum
from django.utils.translation import gettext as _

from accounts.models import User
from accounts.services import notification_send
from agent_protocol.messages import BenchmarkReport
from benchmarks.models import Proof, Result, Run, Verdict
from benchmarks.proving import timing_of
from benchmarks.selectors.guidance import Explained
from benchmarks.selectors.suites import fleet_medians, limits_at, reference_of
from benchmarks.selectors.verdicts import recent_meets, verdict_of
from benchmarks.services.dispatch import GIB, nonce_check, run_leave_host, run_locked
from benchmarks.services.requests import run_follow_up, run_repeat
from benchmarks.states import RUN, RUN_ON_HOST
from benchmarks.verification import (
    JUDGED_RUNS,
    METRICS,
    PROOF_METRIC,
    Judgement,
    Reason,
    judge,
    judge_proof,
    standing,
)
from benchmarks.verification import Proof as ShownProof
from core import news
from core.errors import Conflict, Denied, Invalid
from core.locks import lock_rows
from core.states import SYSTEM, actor_name
from providers.models import Gpu, Machine
from providers.services import machine_network_record

FIGURE_STEP = Decimal("0.0001")


def run_report(*, machine: Machine, report: BenchmarkReport, now: datetime) -> Run:
    """Take a machine's figures for a run it was offered. The same report twice is harmless.

    The verdict follows here, or when the proof that goes with the figures is decided (services.proofs). Raises NotFound;
    Conflict ``stale_token`` (nonce), ``stale_state`` (the run had ended otherwise) or ``unproven``; Invalid naming
    suite_version or gpu_uuid; Denied ``simulated_refused``. After a refusal nothing has moved.
    """
    with transaction.atomic():
        run = run_locked(run_id=report.run_id, machine=machine)
        nonce_check(run, report.nonce)
        _fits(run, report)
        if run.status in (Run.Status.REPORTED, Run.Status.VERIFIED):
            return run
        if run.status not in RUN_ON_HOST:
            raise Conflict(f"The run is {run.status} already.", code="stale_state")
        if report.conditions.device == "cpu":
            # A processor's figures are never taken for a GPU's.
            run_leave_host(run, to=Run.Status.FAILED, reason="no_cuda", now=now, changes={"ended_at": now})
            run_repeat(run, now=now)
            return run
        proof = proof_of(run)
        if proof is None:
            raise Conflict("The challenge of this run was not answered.", code="unproven")
        changes = {"reported_at": now, "simulated": _simulated(run, report), "conditions": report.conditions.to_dict()}
        run_leave_host(run, to=Run.Status.REPORTED, reason="", now=now, changes=changes)
        _results_store(run, report)
        _network_tell(run, report, now)
        if proof.decided_at is not None:
            run_verify(run, now=now)
        return run


def proof_of(run: Run) -> Proof | None:
    """The newest attempt at the run's challenge that was opened."""
    return Proof.objects.filter(run=run, opened_at__isnull=False).order_by("-started_at", "-id").first()


def _simulated(run: Run, report: BenchmarkReport) -> bool:
    """A machine that enrolled as a simulation stays one, whatever it says later."""
    return report.conditions.simulated or report.conditions.device == "simulated" or run.machine.simulated


def _fits(run: Run, report: BenchmarkReport) -> None:
    if report.suite_version != run.suite.version:
        raise Invalid.field("suite_version", found=report.suite_version, allowed=str(run.suite.version))
    if report.gpu_uuid != run.gpu.uuid:
        raise Invalid.field("gpu_uuid", found=report.gpu_uuid, allowed=run.gpu.uuid)
    if _simulated(run, report) and not settings.DEMO:
        raise Denied("Simulated figures are taken in demo mode only.", code="simulated_refused")


def _results_store(run: Run, report: BenchmarkReport) -> None:
    figures = report.metrics.to_dict()
    Result.objects.bulk_create(
        Result(
            run=run,
            metric=metric,
            value=None if figures[metric] is None else Decimal(str(figures[metric])).quantize(FIGURE_STEP),
        )
        for metric in METRICS
    )


def _network_tell(run: Run, report: BenchmarkReport, now: datetime) -> None:
    """What the host's network does is held against what its owner declared."""
    down, up = report.metrics.network_down_mbps, report.metrics.network_up_mbps
    if (down, up) != (None, None):
        speeds = {"down_mbps": None if down is None else int(down), "up_mbps": None if up is None else int(up)}
        machine_network_record(machine_id=run.machine_id, now=now, **speeds)


def run_verify(run: Run, *, now: datetime) -> Verdict:
    """Judge a reported run, write the verdict, publish it, and ask for what has to follow. In the caller's transaction."""
    # One verdict of a GPU at a time: each is derived from the ones before it.
    lock_rows(Gpu.objects.all(), [run.gpu_id])
    judgement = judgement_of(run, now=now)
    before = verdict_of([run.gpu_id]).get(run.gpu_id)
    earlier = recent_meets(run.gpu_id, JUDGED_RUNS - 1)
    in_review = bool(judgement.suspicious) or (before is not None and before.in_review)
    passed = standing(
        recent_meets=[judgement.meets_minimum, *earlier],
        was_listed=None if before is None else before.passed,
        in_review=in_review,
    )
    RUN.move(run, to=Run.Status.VERIFIED, at=now, changes={"ended_at": now})
    verdict = _verdict_write(run, judgement, passed=passed, in_review=in_review, decided_by=SYSTEM, now=now)
    _tell(run.gpu, before, verdict, second_bad=[*earlier, True][:2] == [False, True], now=now)
    first_bad = not judgement.meets_minimum and (not earlier or earlier[0])
    run_follow_up(run, first_bad=first_bad, now=now)
    return verdict


def run_review_open(run: Run, *, code: str, now: datetime) -> bool:
    """A run that brought no figures, and is strange for another reason: a person has to look. In the caller's transaction.

    False where the card is in review already.
    """
    before = verdict_of([run.gpu_id]).get(run.gpu_id)
    if before is not None and before.in_review:
        return False
    run.simulated = run.machine.simulated
    found = Judgement((), (Reason(code, PROOF_METRIC, None, None),), None, None)
    verdict = _verdict_write(run, found, passed=False, in_review=True, decided_by=SYSTEM, now=now)
    _tell(run.gpu, before, verdict, second_bad=False, now=now)
    return True


def judgement_of(run: Run, *, now: datetime) -> Judgement:
    """The run's stored figures against the limits in force now."""
    values = dict(Result.objects.filter(run=run).values_list("metric", "value"))
    limits = limits_at(run.suite, now)
    model = run.gpu.model
    if model is None:
        raise Conflict("The GPU has no model in the catalogue.", code="model_unknown")
    reference = reference_of(model)
    memory = Gpu.objects.filter(machine=run.machine_id, status=Gpu.Status.ACTIVE).aggregate(all=Sum("memory_bytes"))
    judgement = judge(
        values,
        reference=reference,
        limits=limits,
        fleet_medians=fleet_medians(model_id=model.pk, suite=run.suite, limits=limits, simulated=bool(run.simulated)),
        machine_memory_gib=Decimal(memory["all"] or 0) / GIB,
    )
    proof = proof_of(run)
    # Runs from before there was a challenge have none.
    return judgement if proof is None else judge_proof(judgement, _shown(run, proof), values, reference, limits)


def _shown(run: Run, proof: Proof) -> ShownProof:
    assert proof.committed_at is not None  # a law: what is opened was committed
    timing = timing_of(proof.n, proof.rounds, (proof.committed_at - proof.started_at).total_seconds())
    limit = None if run.simulated else timing.claim_limit_tflops
    return ShownProof(right=proof.wrong is None, proven_tflops=timing.proven_tflops, claim_limit_tflops=limit)


def _verdict_write(
    run: Run, judgement: Judgement, *, passed: bool, in_review: bool, decided_by: str, now: datetime
) -> Verdict:
    reasons = [reason.to_dict() for reason in (*judgement.suspicious, *judgement.below)]
    verdict = Verdict.objects.create(
        gpu_id=run.gpu_id,
        run=run,
        passed=passed,
        meets_minimum=judgement.meets_minimum,
        in_review=in_review,
        health_percent=judgement.health_percent,
        performance_index=judgement.performance_index,
        reasons=reasons,
        simulated=bool(run.simulated),
        decided_at=now,
        decided_by=decided_by,
    )
    news.publish("benchmark.verdict", run.gpu_id, now=now)
    return verdict


def verdict_review_close(*, gpu: Gpu, actor: User, now: datetime) -> Verdict:
    """Staff looked at a figure that was too good to be true and found nothing wrong: the minimum alone decides again.

    Raises Denied (not staff), Conflict ``not_in_review``.
    """
    if not actor.is_staff:
        raise Denied(_("Only staff may close a review."))
    with transaction.atomic():
        lock_rows(Gpu.objects.all(), [gpu.pk])
        before = verdict_of([gpu.pk]).get(gpu.pk)
        if before is None or not before.in_review:
            raise Conflict(_("This GPU is not in review."), code="not_in_review")
        run = Run.objects.select_related("gpu__model", "suite").get(pk=before.run_id)
        judgement = judgement_of(run, now=now)
        return _verdict_write(
            run,
            judgement,
            passed=judgement.meets_minimum,
            in_review=False,
            decided_by=actor_name(actor),
            now=now,
        )


def _tell(gpu: Gpu, before: Verdict | None, verdict: Verdict, *, second_bad: bool, now: datetime) -> None:
    """Write to the owner when a card's standing changes. A card's very first bad run is repeated first: no alarm for that."""
    was_listed = before is not None and before.passed
    if verdict.passed:
        kind = "benchmark_listed" if before is not None and not was_listed else ""
    else:
        review_begins = verdict.in_review and not (before is not None and before.in_review)
        kind = "benchmark_delisted" if was_listed or review_begins or (second_bad and not verdict.in_review) else ""
    if kind:
        notification_send(
            kind=kind,
            party=gpu.machine.provider.party,
            context={
                "model": gpu.model.name if gpu.model else gpu.reported_name,
                "machine": gpu.machine.name,
                "in_review": verdict.in_review,
                "reasons": [Explained(reason) for reason in verdict.reasons],
            },
            url="/provider/benchmarks/",
            now=now,
        )

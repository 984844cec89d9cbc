"""What a proof says about the figures beside it, and what the database itself keeps in order."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction

from accounts.models import User
from agent.bench.plain import PlainChain
from agent_protocol import challenge
from benchmarks import selectors, services
from benchmarks.models import Proof, Run, Verdict
from benchmarks.services import requests
from tests.benchmarks.proving import commit, in_review, opened
from tests.factories.benchmarks import (
    machine_made,
    opening_for,
    proof_made,
    proof_started,
    provider_made,
    report_for,
    run_offered,
)

pytestmark = pytest.mark.django_db
SECOND = timedelta(seconds=1)


@pytest.fixture
def real(ada: User, now: datetime) -> Run:
    """A run on a machine that has a real L40S: its products are those of a card with so much memory."""
    machine = machine_made(provider_made(ada, now=now), now=now, simulated=False)
    requests.runs_request(gpus=[machine.gpus.get()], trigger="enrolment", now=now)
    run = run_offered(machine.gpus.get(), now=now)
    assert run.challenge["n"] == 8192
    return run


def timed(run: Run, now: datetime, monkeypatch: pytest.MonkeyPatch, *, seconds: float, **figures: Any) -> Verdict:
    """An answer after so many seconds, whose rows are right: here only time is judged."""
    monkeypatch.setattr(services.proofs, "first_wrong", lambda seeds, n, leaves: None)
    proof = proof_started(run, now=now)
    leaves = tuple(bytes([index % 256]) * 32 for index in range(proof.n))
    root = challenge.merkle_root(leaves)
    committed = commit(
        proof, PlainChain((root,) * proof.rounds, (leaves,) * proof.rounds), now=now + timedelta(seconds=seconds)
    )
    opened(committed, opening_for(committed, PlainChain((root,) * proof.rounds, (leaves,) * proof.rounds)), now=now)
    services.proofs_decide(now=now)
    report = report_for(run, simulated=False, device="cuda", **figures)
    services.run_report(machine=run.machine, report=report, now=now)
    return selectors.verdict_of([run.gpu_id])[run.gpu_id]


def test_faster_than_the_card_can_multiply_leads_to_a_review(
    real: Run, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 128 products of 8192 are 141 TFLOP; an L40S at its peak of 362 TFLOPS and 15 % takes 0.338 s.
    verdict = timed(real, now, monkeypatch, seconds=0.337)
    assert in_review(verdict, "proof_above_peak")


def test_a_claim_that_the_timing_bears_out_passes(real: Run, now: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = timed(real, now, monkeypatch, seconds=30)
    assert verdict.passed
    assert not verdict.reasons


def test_a_claim_far_above_the_timing_counts_as_a_bad_run_and_is_repeated(
    real: Run, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A processor that answers for a card: 141 TFLOP in five minutes are 0.47 TFLOPS.
    verdict = timed(real, now, monkeypatch, seconds=300)
    assert (verdict.passed, verdict.in_review) == (False, False)
    assert {reason["code"] for reason in verdict.reasons} == {"claim_above_timing"}
    assert Run.objects.get(status="requested").trigger == "retest"


def test_a_simulated_machine_stays_one_whatever_it_says(run: Run, now: datetime) -> None:
    services.run_report(machine=run.machine, report=report_for(run, simulated=False, device="cuda"), now=now)
    assert Verdict.objects.get().simulated


# -- Laws -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    ["seed = 'other'", "roots = '[]'", "rows = '[]'", "committed_at = now()", "leaves = '[]'", "wrong = '[0, 0]'"],
)
def test_the_database_lets_no_stage_be_rewritten(run: Run, now: datetime, change: str) -> None:
    proof = proof_made(run, now=now)
    with pytest.raises(IntegrityError, match="written once"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"UPDATE benchmarks_proof SET {change} WHERE id = %s", [proof.pk])


def test_the_database_knows_the_order_of_the_stages(run: Run, now: datetime) -> None:
    proof = proof_started(run, now=now)
    for field, law in (("opened_at", "commits_before_opening"), ("decided_at", "opens_before_decision")):
        with pytest.raises(IntegrityError, match=law), transaction.atomic():
            Proof.objects.filter(pk=proof.pk).update(**{field: now})

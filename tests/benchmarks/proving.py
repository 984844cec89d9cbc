"""The steps of a proof as a host takes them, and what came of it."""

from __future__ import annotations

from datetime import datetime

from agent.bench.plain import PlainChain
from agent_protocol.messages import BenchOpen
from benchmarks import services
from benchmarks.models import Proof, Verdict
from tests.factories.benchmarks import (
    commit_for,
)


def commit(proof: Proof, chain: PlainChain, *, now: datetime) -> Proof:
    return services.proof_commit(
        machine=proof.run.machine, run_id=proof.run_id, commit=commit_for(proof, chain.roots), now=now
    )


def opened(proof: Proof, opening: BenchOpen, *, now: datetime) -> Proof:
    return services.proof_open(machine=proof.run.machine, run_id=proof.run_id, opening=opening, now=now)


def in_review(verdict: Verdict, code: str) -> bool:
    return verdict.in_review and not verdict.passed and code in [reason["code"] for reason in verdict.reasons]

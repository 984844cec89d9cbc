"""Machines as agents make them, and benchmark reports as agents send them. Built through services."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import uuid4

from accounts.models import User
from accounts.services import user_register
from agent.bench.plain import PlainChain, chain_plain
from agent_protocol.messages import (
    BenchCommit,
    BenchmarkConditions,
    BenchmarkFailed,
    BenchmarkMetrics,
    BenchmarkReport,
    BenchOpen,
    BenchOpening,
    BenchStart,
    Gpu,
    Host,
    Inventory,
)
from benchmarks import services
from benchmarks.models import Proof, Run
from benchmarks.services import requests
from benchmarks.states import RUN_ON_HOST
from core.ids import secret_hash, secret_new
from providers import models
from providers.services import enrolment_token_issue, machine_confirm, machine_enrol, machine_inventory_record
from tests.factories.providers import groups, provider_make

DRIVER = "570.86.15"
MIB = 1024 * 1024
HEALTHY: dict[str, float | None] = {
    "fp32_tflops": 35.0,
    "fp16_tflops": 172.0,
    "tensor_tflops": 175.0,
    "memory_read_gbps": 700.0,
    "memory_write_gbps": 690.0,
    "memory_copy_gbps": 640.0,
    "storage_read_mbps": 3000.0,
    "storage_write_mbps": 2000.0,
    "network_down_mbps": 900.0,
    "network_up_mbps": 400.0,
    "latency_ms": 20.0,
}
"""A healthy L40S in a good host."""


def provider_made(user: User, *, now: datetime, cards: int = 64) -> models.Provider:
    """``user`` as an approved provider with room for ``cards`` L40S."""
    reviewer = User.objects.filter(email="reviewer@example.com").first() or user_register(
        email="reviewer@example.com", password=None, is_staff=True
    )
    return provider_make(user, reviewer=reviewer, gpus=groups(("l40s-48gb", cards)), now=now)


def inventory_of(uuids: Iterable[str], *, driver: str = DRIVER) -> Inventory:
    """What an agent reports of L40S cards with these UUIDs."""
    cards = tuple(
        Gpu(uuid=uuid, name="NVIDIA L40S", memory_bytes=46068 * MIB, health="ok", reasons={}) for uuid in uuids
    )
    return Inventory(host=Host(architecture="x86_64", driver_version=driver), gpus=cards, driver_version=driver)


def machine_made(
    provider: models.Provider,
    *,
    now: datetime,
    cards: int = 1,
    confirmed: bool = True,
    driver: str = DRIVER,
    simulated: bool = True,
) -> models.Machine:
    """An enrolled machine with L40S cards, confirmed by its owner."""
    _row, token = enrolment_token_issue(provider=provider, actor="tests", now=now)
    inventory = inventory_of([f"GPU-{uuid4()}" for _card in range(cards)], driver=driver)
    machine = machine_enrol(
        token=token,
        key=uuid4(),
        credential_hash=secret_hash(secret_new("gpxa")),
        boot_id="boot-1",
        agent_version="1.0.0",
        simulated=simulated,
        host=inventory.host,
        now=now,
    ).machine
    machine_inventory_record(machine=machine, inventory=inventory, now=now)
    if confirmed:
        machine_confirm(machine=machine, actor="tests", now=now)
    machine.refresh_from_db()
    return machine


def proof_answer(proof: Proof) -> PlainChain:
    """An honest answer to a started challenge."""
    return chain_plain(nonce=proof.run.challenge["nonce"], seed=proof.seed, n=proof.n, rounds=proof.rounds)


def commit_for(proof: Proof, roots: Iterable[bytes]) -> BenchCommit:
    return BenchCommit(
        nonce=proof.run.challenge["nonce"],
        attempt=str(proof.attempt),
        roots=tuple(root.hex() for root in roots),
        product_s=0.001,
    )


def opening_for(proof: Proof, chain: PlainChain) -> BenchOpen:
    """The rows that the committed proof asks for, out of an answer."""
    opened = [(each, row, *chain.opening(each, row)) for each, row in proof.rows]
    return BenchOpen(
        nonce=proof.run.challenge["nonce"],
        attempt=str(proof.attempt),
        openings=tuple(
            BenchOpening(round=each, row=row, leaf=leaf.hex(), path=tuple(step.hex() for step in path))
            for each, row, leaf, path in opened
        ),
    )


def proof_started(run: Run, *, now: datetime) -> Proof:
    start = BenchStart(nonce=run.challenge["nonce"], attempt=str(uuid4()))
    return services.proof_start(machine=run.machine, run_id=run.pk, start=start, now=now)


def proof_made(run: Run, *, now: datetime, took: timedelta = timedelta(0), decided: bool = True) -> Proof:
    """The run's challenge, answered honestly and recomputed."""
    proof = proof_started(run, now=now)
    chain = proof_answer(proof)
    at = now + took
    proof = services.proof_commit(machine=run.machine, run_id=run.pk, commit=commit_for(proof, chain.roots), now=at)
    proof = services.proof_open(machine=run.machine, run_id=run.pk, opening=opening_for(proof, chain), now=at)
    if decided:
        services.proof_decide(proof_id=proof.pk, now=at)
    proof.refresh_from_db()
    return proof


def report_for(
    run: Run, *, simulated: bool = True, device: str = "simulated", **figures: float | None
) -> BenchmarkReport:
    """The agent's figures for a run that it was offered and has proven; ``figures`` differ from a healthy card's."""
    if run.status in RUN_ON_HOST and device != "cpu" and not run.proofs.exists():
        proof_made(run, now=run.offered_at)
    return BenchmarkReport(
        run_id=str(run.pk),
        nonce=run.challenge["nonce"],
        suite_version=run.suite.version,
        gpu_uuid=run.gpu.uuid,
        metrics=BenchmarkMetrics(**(HEALTHY | figures)),
        conditions=BenchmarkConditions(throttle_reasons=(), simulated=simulated, device=device),
    )


def failure_for(run: Run, reason: str = "gpu_busy") -> BenchmarkFailed:
    return BenchmarkFailed(run_id=str(run.pk), nonce=run.challenge["nonce"], reason=reason)


def run_offered(gpu: models.Gpu, *, now: datetime) -> Run:
    """The GPU's run on its host, offered by the dispatcher."""
    services.runs_dispatch(now=now)
    return Run.objects.get(gpu=gpu, status="offered")


def run_done(gpu: models.Gpu, *, now: datetime, **figures: float | None) -> Run:
    """The GPU's next run, offered and reported."""
    run = run_offered(gpu, now=now)
    return services.run_report(machine=gpu.machine, report=report_for(run, **figures), now=now + timedelta(seconds=30))


def baseline_made(
    machine: models.Machine, *, now: datetime, runs: int = 3, **figures: float | None
) -> list[models.Gpu]:
    """A machine's first runs, a minute each from ``now`` on, as the dispatcher hands them out; returns its GPUs."""
    gpus = list(machine.gpus.select_related("machine", "model").order_by("pk"))
    requests.runs_request(gpus=gpus, trigger=Run.Trigger.ENROLMENT, now=now)
    at = now
    for _run in range(runs):
        while Run.objects.filter(machine=machine, status=Run.Status.REQUESTED, not_before__lte=at).exists():
            services.runs_dispatch(now=at)
            run = Run.objects.get(machine=machine, status=Run.Status.OFFERED)
            services.run_report(machine=machine, report=report_for(run, **figures), now=at + timedelta(seconds=30))
            at += timedelta(seconds=1)
        at += timedelta(minutes=1)
    return gpus

"""The challenge over HTTP: doors that hold to the protocol, and the real suite against the real platform."""

from __future__ import annotations

import sys
import threading
from typing import Any
from uuid import uuid4

import pytest

from accounts.models import User
from agent.bench.launch import ChildLauncher
from agent.bench.suite import SuiteBenchmark
from agent_protocol import messages as wire
from agent_protocol.fields import MAX_BODY_BYTES
from benchmarks import services
from benchmarks.models import Proof, Run, Verdict
from benchmarks.services import requests
from core import clock
from gpunex import agent_bench
from tests.factories.benchmarks import commit_for, machine_made, opening_for, proof_answer, provider_made, run_offered
from tests.gpunex.hosts import Host, event
from tests.needs import TORCH_PYTHON

pytestmark = pytest.mark.django_db
NUMPY = (sys.executable, ("--device", "cpu", "--backend", "numpy", "--quick"))
TORCH = (TORCH_PYTHON, ("--device", "cpu", "--backend", "torch", "--quick"))


def offered(user: User, *, simulated: bool = True) -> tuple[Host, Run]:
    now = clock.now()
    machine = machine_made(provider_made(user, now=now), now=now, simulated=simulated)
    requests.runs_request(gpus=[machine.gpus.get()], trigger="enrolment", now=now)
    return Host(machine), run_offered(machine.gpus.get(), now=now)


@pytest.fixture
def host_and_run(ada: User) -> tuple[Host, Run]:
    return offered(ada)


def start_body(run: Run, **changes: Any) -> dict[str, Any]:
    return {"nonce": run.challenge["nonce"], "attempt": str(uuid4())} | changes


def started(host: Host, run: Run) -> Proof:
    assert host.post(f"bench/{run.pk}/start", start_body(run)).status_code == 200
    return Proof.objects.get()


def test_three_requests_prove_a_run(host_and_run: tuple[Host, Run]) -> None:
    host, run = host_and_run
    answer = host.post(f"bench/{run.pk}/start", body := start_body(run))
    seed = wire.BenchStarted.parse(answer.json()).seed
    assert host.post(f"bench/{run.pk}/start", body).json() == {"seed": seed}
    proof = Proof.objects.get()
    chain = proof_answer(proof)
    commit = commit_for(proof, chain.roots).to_dict()
    answer = host.post(f"bench/{run.pk}/commit", commit)
    rows = [(each.round, each.row) for each in wire.BenchCommitted.parse(answer.json()).openings]
    assert host.post(f"bench/{run.pk}/commit", commit).json() == answer.json()
    proof.refresh_from_db()
    assert [list(row) for row in rows] == proof.rows
    opening = opening_for(proof, chain).to_dict()
    for _ in range(2):
        answer = host.post(f"bench/{run.pk}/open", opening)
        assert wire.BenchOpened.parse(answer.json()).rows == 32
    assert services.proofs_decide(now=clock.now()) == 1
    proof.refresh_from_db()
    assert proof.wrong is None


@pytest.mark.parametrize("step", ["start", "commit", "open", "download"])
@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"nonce": NaN}', 400),
        (b"{", 400),
        (b"[]", 400),
        (b'{"nonce": "n", "stray": 1}', 400),
        (b" " * (MAX_BODY_BYTES + 1), 413),
    ],
    ids=["nan", "half", "list", "stray", "long"],
)
def test_bad_bodies_are_refused_by_name_and_nothing_moves(
    host_and_run: tuple[Host, Run], step: str, body: bytes, status: int
) -> None:
    host, run = host_and_run
    answer = host.post(f"bench/{run.pk}/{step}", body)
    assert answer.status_code in (status, 400)
    assert answer.json()["code"] in ("invalid", "too_large")
    assert not Proof.objects.exists()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("roots", ["0f" * 32] * 2000),
        ("roots", ["0f" * 31]),
        ("roots", ["0F" * 32]),
        ("product_s", 1e999),
        ("product_s", -1),
        ("attempt", "1"),
    ],
)
def test_bad_fields_of_a_commit_are_named(host_and_run: tuple[Host, Run], field: str, value: Any) -> None:
    host, run = host_and_run
    proof = started(host, run)
    body = commit_for(proof, proof_answer(proof).roots).to_dict() | {field: value}
    if value == 1e999:
        raw = b'{"nonce": "n", "attempt": "a", "roots": [], "product_s": 1e999}'
        assert host.post(f"bench/{run.pk}/commit", raw).status_code == 400
        return
    answer = host.post(f"bench/{run.pk}/commit", body)
    assert answer.status_code == 400
    assert [name.split(".")[0] for name in answer.json()["fields"]] == [field]
    assert Proof.objects.get().committed_at is None


def test_no_door_opens_for_another_machine_a_guessed_nonce_or_nobody(ada: User, host_and_run: tuple[Host, Run]) -> None:
    host, run = host_and_run
    stranger = Host(machine_made(run.machine.provider, now=clock.now()))
    for step, body in (
        ("start", start_body(run)),
        ("download", {"nonce": run.challenge["nonce"], "size_bytes": 1}),
    ):
        assert stranger.post(f"bench/{run.pk}/{step}", body).status_code == 404
        assert host.post(f"bench/{run.pk}/{step}", body | {"nonce": "guessed"}).json()["code"] == "stale_token"
        assert host.post(f"bench/{run.pk}/{step}", body, credential="gpxa_wrong").status_code == 401
        assert host.post(f"bench/{uuid4()}/{step}", body).status_code == 404
    assert not Proof.objects.exists()


# -- Bytes ------------------------------------------------------------------------------------------------------------


def upload(host: Host, run: Run, content: bytes, nonce: str | None = None) -> Any:
    return host.client.post(
        f"/agent/v1/bench/{run.pk}/upload",
        content,
        content_type="application/octet-stream",
        headers={
            "Authorization": f"Bearer {host.credential}",
            wire.NONCE_HEADER: nonce or run.challenge["nonce"],
        },
    )


def download(host: Host, run: Run, size: int) -> Any:
    return host.post(f"bench/{run.pk}/download", {"nonce": run.challenge["nonce"], "size_bytes": size})


@pytest.mark.parametrize("size", [1, 65_536, 65_537, 1024 * 1024 + 5])
def test_exactly_so_many_bytes_come_down_and_are_counted_up(host_and_run: tuple[Host, Run], size: int) -> None:
    host, run = host_and_run
    answer = download(host, run, size)
    content = b"".join(answer.streaming_content)
    assert len(content) == size == int(answer["Content-Length"])
    assert "Content-Encoding" not in answer
    assert upload(host, run, content).json() == {"received_bytes": size}


def test_bytes_are_bounded_in_size_and_number(host_and_run: tuple[Host, Run], monkeypatch: pytest.MonkeyPatch) -> None:
    host, run = host_and_run
    assert download(host, run, wire.MAX_BLOB_BYTES + 1).status_code == 400
    monkeypatch.setattr(agent_bench, "MAX_BLOB_BYTES", 1000)
    assert upload(host, run, b"x" * 1001).status_code == 413
    assert upload(host, run, b"x", nonce="guessed").json()["code"] == "stale_token"
    monkeypatch.setattr(agent_bench, "BLOBS_PER_RUN", 2)
    assert [upload(host, run, b"x").status_code for _ in range(2)] == [200, 429]
    assert [download(host, run, 1).status_code for _ in range(3)] == [200, 200, 429]


def test_random_bytes_cannot_be_compressed_away(host_and_run: tuple[Host, Run]) -> None:
    host, run = host_and_run
    content = b"".join(download(host, run, 200_000).streaming_content)
    assert len(set(content)) == 256
    assert content[:65_536] != content[65_536:131_072]


# -- The real suite against the real platform ---------------------------------------------------------------------------


class Desk:
    """The agent's client, speaking to the platform's views."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def _ask(self, run_id: str, step: str, body: wire.BenchStart | wire.BenchCommit | wire.BenchOpen) -> Any:
        answer = self.host.post(f"bench/{run_id}/{step}", body.to_dict())
        assert answer.status_code == 200, answer.content
        return answer.json()

    def bench_start(self, run_id: str, start: wire.BenchStart) -> wire.BenchStarted:
        return wire.BenchStarted.parse(self._ask(run_id, "start", start))

    def bench_commit(self, run_id: str, commit: wire.BenchCommit) -> wire.BenchCommitted:
        return wire.BenchCommitted.parse(self._ask(run_id, "commit", commit))

    def bench_open(self, run_id: str, opening: wire.BenchOpen) -> wire.BenchOpened:
        return wire.BenchOpened.parse(self._ask(run_id, "open", opening))


@pytest.mark.parametrize(
    "suite", [NUMPY, pytest.param(TORCH, marks=[pytest.mark.torch, pytest.mark.deep])], ids=["numpy", "torch"]
)
def test_the_suite_proves_its_work_and_a_processor_is_still_no_gpu(
    ada: User, monkeypatch: pytest.MonkeyPatch, suite: tuple[str, tuple[str, ...]]
) -> None:
    monkeypatch.setattr(services.dispatch, "matrix_size", lambda _gib: 128)
    host, run = offered(ada, simulated=False)
    plan = wire.BenchmarkPlan.parse(wire.PlanItem.parse(host.sync().json()["plan"][0]).body)
    assert (plan.challenge.n, plan.challenge.rounds) == (128, run.suite.rounds)
    benchmark = SuiteBenchmark(ChildLauncher(*suite), Desk(host), [])
    found = benchmark.run(plan, lambda _percent: None, _not_cancelled)
    assert services.proofs_decide(now=clock.now()) == 1
    proof = Proof.objects.get()
    assert proof.wrong is None
    assert len(proof.roots) == run.suite.rounds
    assert (proof.product_s or 0) > 0
    report = wire.BenchmarkReport(
        run_id=plan.run_id,
        nonce=plan.challenge.nonce,
        suite_version=plan.suite_version,
        gpu_uuid=plan.gpu_uuid,
        metrics=found.metrics,
        conditions=found.conditions,
    )
    assert host.events(event("benchmark_report", report.to_dict())).json()["refused"] == []
    run.refresh_from_db()
    assert (run.status, run.reason) == ("failed", "no_cuda")
    assert not Verdict.objects.exists()


def _not_cancelled(seconds: float) -> bool:
    """Waits as it was told to, though never long."""
    return threading.Event().wait(min(seconds, 0.05))

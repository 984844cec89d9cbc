"""Benchmarks on the agent's side: the suite as a child, the conversation with the platform, storage and the line."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.bench.base import BenchmarkRefused, Measurement
from agent.bench.launch import ChildLauncher
from agent.bench.network import NetworkMeasure
from agent.bench.storage import StorageMeasure
from agent.bench.suite import HostFigures, SuiteBenchmark
from agent.client import ClientError, Refused, SlowDown, Unreachable
from agent_protocol.challenge import product_row, row_leaf, row_pack, seeds_of
from agent_protocol.messages import (
    MAX_BLOB_BYTES,
    BenchDownload,
    BenchmarkPlan,
    BenchOpen,
    BenchOpened,
    BenchStart,
    BenchStarted,
    RefusalReply,
)
from agent_protocol.reasons import BENCHMARK_FAILURES
from tests.agent.desk import FakeDesk
from tests.agent.host import GPU_A
from tests.agent_protocol.samples import BENCHMARK_PLAN, UUID_A

ON_NUMPY = ("--device", "cpu", "--backend", "numpy", "--quick")
N = 16


def plan(**changes: Any) -> BenchmarkPlan:
    challenge = {"nonce": "n1", "n": N, "rounds": 2}
    return BenchmarkPlan.parse({**BENCHMARK_PLAN, "gpu_uuid": GPU_A, "challenge": challenge, **changes})


def never(seconds: float) -> bool:
    """Not cancelled; waits as it was told to, though never long."""
    threading.Event().wait(min(seconds, 0.05))
    return False


class Host:
    """Stands for storage and line, which have tests of their own."""

    def measure(self, plan: BenchmarkPlan, cancelled: Callable[[float], bool]) -> HostFigures:
        found = HostFigures()
        found.metrics["storage_read_mbps"] = 900.0
        found.unmeasured["storage_write_mbps"] = "fio_failed"
        return found


def run(
    desk: FakeDesk, launcher: Any = None, *, cancelled: Callable[[float], bool] = never, **changes: Any
) -> Measurement:
    launcher = launcher or ChildLauncher(sys.executable, ON_NUMPY)
    return SuiteBenchmark(launcher, desk, [Host()]).run(plan(**changes), lambda _percent: None, cancelled)


def refused(*arguments: Any, **named: Any) -> str:
    with pytest.raises(BenchmarkRefused) as caught:
        run(*arguments, **named)
    assert caught.value.reason in BENCHMARK_FAILURES
    return caught.value.reason


# -- The suite, driven ------------------------------------------------------------------------------------------------


def test_the_suite_answers_the_platform_and_its_figures_are_passed_on() -> None:
    desk = FakeDesk()
    percents: list[int] = []
    benchmark = SuiteBenchmark(ChildLauncher(sys.executable, ON_NUMPY), desk, [Host()])
    found = benchmark.run(plan(), percents.append, never)
    assert desk.calls == ["start", "commit", "open"]
    seeds = seeds_of("n1", FakeDesk.SEED, [bytes.fromhex(root) for root in desk.roots[UUID_A]])
    for each in desk.opened[UUID_A].openings:
        assert each.leaf == row_leaf(row_pack(product_row(seeds[each.round], N, each.row))).hex()
    assert (found.conditions.device, found.conditions.simulated) == ("cpu", False)
    assert (found.metrics.fp32_tflops or 0) > 0
    assert found.metrics.fp16_tflops is None
    assert found.metrics.storage_read_mbps == 900.0
    assert found.conditions.unmeasured is not None
    assert found.conditions.unmeasured["fp16_tflops"] == "unsupported_precision"
    assert found.conditions.unmeasured["storage_write_mbps"] == "fio_failed"
    assert found.conditions.details is not None
    assert "fp32_tflops_mad_percent" in found.conditions.details
    assert percents == sorted(percents)
    assert percents[-1] == 100


def test_without_cuda_there_are_no_figures_at_all() -> None:
    desk = FakeDesk()
    assert refused(desk, ChildLauncher(sys.executable, ("--backend", "numpy"))) == "no_cuda"
    assert desk.calls == []


def test_without_torch_or_python_the_suite_is_not_installed(tmp_path: Path) -> None:
    assert refused(FakeDesk(), ChildLauncher(sys.executable)) == "not_installed"
    assert refused(FakeDesk(), ChildLauncher(str(tmp_path / "no-python"))) == "not_installed"


def test_an_unknown_suite_is_refused_before_anything_runs() -> None:
    desk = FakeDesk()
    assert refused(desk, suite_version=99) == "unsupported_suite"


class Scripted:
    """A launcher whose runs print what a test wants."""

    def __init__(self, *outputs: bytes, endless: bool = False) -> None:
        self.outputs = list(outputs)
        self.endless = endless
        self.closed = 0

    def names(self) -> frozenset[str]:
        return frozenset()

    def prepare(self, plan: BenchmarkPlan, cancelled: Callable[[float], bool]) -> None:
        """Nothing."""

    def start(self, plan: BenchmarkPlan, arguments: Sequence[str]) -> Any:
        outer, content = self, self.outputs.pop(0)

        class Run:
            def ended(self) -> bool:
                return not outer.endless

            def output(self) -> bytes:
                return content

            def close(self) -> None:
                outer.closed += 1

        return Run()


def lines(*events: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


DONE = {"event": "done"}
DEVICE = {"event": "device", "device": "cuda", "name": "x", "memory_bytes": None}
TOLD = {
    "event": "circumstances",
    "clocks_mhz": 1,
    "temperature_c": 2,
    "throttle_reasons": [],
    "foreign_processes": 0,
}


@pytest.mark.parametrize(
    ("outputs", "reason"),
    [
        ([b""], "unknown"),
        ([lines({"event": "failed", "reason": "gpu_lost"})], "gpu_lost"),
        ([lines({"event": "failed", "reason": "bored"})], "unknown"),
        ([lines(DEVICE, TOLD)], "unknown"),
        ([lines(DONE) + b'{"event": "figure", "name"', lines(DONE)], "unknown"),
        ([lines(DONE), lines({"event": "chain", "roots": ["zz"], "product_s": 1}, DONE)], "unknown"),
        (
            [lines(DONE), lines({"event": "chain", "roots": ["0f" * 32] * 2, "product_s": 1}, DONE), lines(DONE)],
            "unknown",
        ),
        (
            [lines(DONE, {"event": "figure", "name": "fp32_tflops", "value": "many", "mad_percent": 0}), *[b""] * 2],
            "unknown",
        ),
    ],
)
def test_a_suite_that_says_nonsense_crashes_nobody(outputs: list[bytes], reason: str) -> None:
    launcher = Scripted(*outputs)
    assert refused(FakeDesk(), launcher) == reason
    assert launcher.closed == len(outputs) - len(launcher.outputs)


def test_what_libraries_print_between_the_lines_is_skipped() -> None:
    noise = b"Warning: \xff\xfe\n[W] something\n{not ours}\n"
    launcher = Scripted(noise + lines({"event": "failed", "reason": "out_of_memory"}) + noise)
    assert refused(FakeDesk(), launcher) == "out_of_memory"


def test_a_run_that_is_cancelled_is_ended() -> None:
    launcher = Scripted(b"", endless=True)
    assert refused(FakeDesk(), launcher, cancelled=lambda _seconds: True) == "interrupted"
    assert launcher.closed == 1


def test_a_child_does_not_outlive_its_run() -> None:
    started = ChildLauncher(sys.executable, ON_NUMPY).start(plan(), ["chain", "--nonce", "n", "--seed", "0f" * 32,
                                                                     "--n", "512", "--rounds", "1000"])  # fmt: skip
    process = started._process
    started.close()
    assert process.returncode is not None


# -- The conversation -------------------------------------------------------------------------------------------------


class Lossy(FakeDesk):
    """Loses the answer to each step a few times, after the platform has heard the question."""

    def __init__(self, error: ClientError, times: int = 2) -> None:
        super().__init__()
        self.error = error
        self.left = {"start": times, "commit": times, "open": times}
        self.attempts: set[str] = set()

    def _lose(self, step: str, attempt: str) -> None:
        self.attempts.add(attempt)
        if self.left[step] > 0:
            self.left[step] -= 1
            raise self.error

    def bench_start(self, run_id: str, start: BenchStart) -> BenchStarted:
        answer = super().bench_start(run_id, start)
        self._lose("start", start.attempt)
        return answer

    def bench_commit(self, run_id: str, commit: Any) -> Any:
        answer = super().bench_commit(run_id, commit)
        self._lose("commit", commit.attempt)
        return answer

    def bench_open(self, run_id: str, opening: BenchOpen) -> BenchOpened:
        answer = super().bench_open(run_id, opening)
        self._lose("open", opening.attempt)
        return answer


@pytest.mark.parametrize("error", [Unreachable("lost"), SlowDown(0.01)])
def test_every_step_may_be_lost_and_is_repeated_under_the_same_name(error: ClientError) -> None:
    desk = Lossy(error)
    run(desk)
    assert desk.calls == ["start"] * 3 + ["commit"] * 3 + ["open"] * 3
    assert len(desk.attempts) == 1


def test_a_refusal_ends_the_run_and_is_not_repeated() -> None:
    reply = RefusalReply(code="stale_state", message="no", fields=None, request_id=None)
    desk = Lossy(Refused(409, reply))
    assert refused(desk) == "challenge_refused"
    assert desk.calls == ["start"]


def test_waiting_for_the_platform_can_be_cancelled() -> None:
    desk = Lossy(Unreachable("lost"), times=10**6)
    waits: list[float] = []

    def cancelled(seconds: float) -> bool:
        never(seconds)
        if desk.calls:
            waits.append(seconds)
        return len(waits) > 3

    assert refused(desk, cancelled=cancelled) == "interrupted"


# -- Storage ----------------------------------------------------------------------------------------------------------

MIB = 1024 * 1024


@pytest.mark.fio
def test_fio_measures_past_the_caches_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("agent.bench.storage.RANDOM_SECONDS", 1)
    found = StorageMeasure(tmp_path, file_bytes=4 * MIB, spare_bytes=0).measure(plan(), never)
    assert found.unmeasured == {}
    assert set(found.metrics) == {"storage_read_mbps", "storage_write_mbps"}
    assert set(found.details) == {"storage_random_read_iops", "storage_random_write_iops"}
    assert all(value > 0 for value in [*found.metrics.values(), *found.details.values()])
    assert list(tmp_path.iterdir()) == []


def fio_pretended(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    (folder / "fio").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "fio").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.mark.parametrize(
    "script", ["exit 1", "echo nonsense", "echo '{}'", "echo '{\"jobs\": []}'", "kill -9 $$"], ids=str
)
def test_a_fio_that_fails_is_a_reason_and_no_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    fio_pretended(tmp_path, monkeypatch, script)
    found = StorageMeasure(tmp_path, file_bytes=MIB, spare_bytes=0).measure(plan(), never)
    assert found.metrics == {}
    assert found.unmeasured == {"storage_read_mbps": "fio_failed", "storage_write_mbps": "fio_failed"}


def test_without_fio_or_space_storage_is_unknown_not_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fio_pretended(tmp_path, monkeypatch, "exit 1")
    measure = StorageMeasure(tmp_path, file_bytes=2**62, spare_bytes=0).measure(plan(), never)
    assert measure.unmeasured["storage_read_mbps"] == "disk_low"
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    measure = StorageMeasure(tmp_path).measure(plan(), never)
    assert (measure.metrics, measure.unmeasured["storage_write_mbps"]) == ({}, "fio_missing")


def test_a_fio_that_hangs_is_killed_when_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fio_pretended(tmp_path, monkeypatch, "exec sleep 600")
    with pytest.raises(BenchmarkRefused, match="interrupted"):
        StorageMeasure(tmp_path, file_bytes=MIB, spare_bytes=0).measure(plan(), lambda _seconds: True)


# -- The line ---------------------------------------------------------------------------------------------------------


class FakeLine:
    """Counts; answers with an error after so many transfers each way."""

    def __init__(self, good: int = 10**9, latency: float | None = 12.5) -> None:
        self.good = {"down": good, "up": good}
        self.sizes: dict[str, list[int]] = {"down": [], "up": []}
        self.latency = latency
        self.lock = threading.Lock()

    def _take(self, way: str, size: int) -> int:
        with self.lock:
            self.good[way] -= 1
            if self.good[way] < 0:
                raise SlowDown(60)
            self.sizes[way].append(size)
            return size

    def bench_download(self, run_id: str, wanted: BenchDownload) -> int:
        return self._take("down", wanted.size_bytes)

    def bench_upload(self, run_id: str, nonce: str, content: bytes) -> int:
        assert nonce == "n1"
        return self._take("up", len(content))

    def latency_ms(self) -> float | None:
        return self.latency


def test_streams_grow_until_the_platform_says_enough() -> None:
    line = FakeLine(good=30)
    found = NetworkMeasure(line, seconds=60).measure(plan(), never)
    assert found.unmeasured == {}
    assert found.metrics["latency_ms"] == 12.5
    for way in ("down", "up"):
        assert found.metrics[f"network_{way}_mbps"] > 0
        assert len(line.sizes[way]) == 30
        assert max(line.sizes[way]) == MAX_BLOB_BYTES


def test_no_more_than_two_gigabytes_go_each_way() -> None:
    line = FakeLine()
    NetworkMeasure(line, seconds=600).measure(plan(), never)
    for way in ("down", "up"):
        assert 2e9 <= sum(line.sizes[way]) < 2e9 + 4 * MAX_BLOB_BYTES


def test_a_line_over_which_nothing_came_is_unknown() -> None:
    found = NetworkMeasure(FakeLine(good=0, latency=None), seconds=60).measure(plan(), never)
    assert found.metrics == {}
    assert found.unmeasured == {
        "network_down_mbps": "unreachable",
        "network_up_mbps": "unreachable",
        "latency_ms": "no_sync_yet",
    }

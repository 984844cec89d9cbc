"""Simulated GPUs: plausible, labelled, and refused when badly described."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent.bench.base import BenchmarkRefused
from agent.bench.simulated import SimulatedBenchmark
from agent.errors import AgentError
from agent.probe.simulated import SimulatedProbe, SimulatedProfile, profile_read
from agent_protocol.messages import BenchmarkPlan
from tests.agent.desk import FakeDesk
from tests.agent.host import GPU_A, GPU_B, PROFILE
from tests.agent_protocol.samples import BENCHMARK_PLAN

CHALLENGE = {"nonce": "n1", "n": 16, "rounds": 2}


def profile(tmp_path: Path, value: Any = PROFILE) -> SimulatedProfile:
    path = tmp_path / "profile.json"
    path.write_text(json.dumps(value))
    return profile_read(path)


def plan(**changes: Any) -> BenchmarkPlan:
    return BenchmarkPlan.parse({**BENCHMARK_PLAN, "gpu_uuid": GPU_A, "challenge": CHALLENGE, **changes})


def test_load_shows_on_the_gpu_that_works(tmp_path: Path) -> None:
    probe = SimulatedProbe(profile(tmp_path))
    assert probe.simulated
    probe.busy(frozenset({GPU_B}))
    idle, working = probe.read().telemetry
    assert idle.utilization_percent == 0
    assert working.utilization_percent is not None
    assert working.utilization_percent > 90
    assert working.power_w is not None
    assert 300 < working.power_w < 400


def test_a_list_alone_is_a_profile(tmp_path: Path) -> None:
    assert len(profile(tmp_path, PROFILE["gpus"]).gpus) == 2


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({}, "gpus"),
        ({"gpus": [{"uuid": "0", "name": "x"}]}, "gpus.0.uuid"),
        ({"gpus": [{"uuid": GPU_A, "memory_bytes": -1}]}, "gpus.0.memory_bytes"),
        ({"gpus": [{"uuid": GPU_A, "benchmark": {"fp32_tflops": "many"}}]}, "gpus.0.fp32_tflops"),
        ({"gpus": [], "benchmark_s": "soon"}, "benchmark_s"),
    ],
)
def test_a_bad_profile_names_the_field(tmp_path: Path, value: Any, field: str) -> None:
    with pytest.raises(AgentError, match=field):
        profile(tmp_path, value)


def test_the_same_challenge_brings_the_same_figures_and_another_others(tmp_path: Path) -> None:
    desk = FakeDesk()
    runner = SimulatedBenchmark(profile(tmp_path), desk)
    seen: list[int] = []
    first = runner.run(plan(), seen.append, lambda _seconds: False)
    again = runner.run(plan(), lambda _percent: None, lambda _seconds: False)
    other = {**CHALLENGE, "nonce": "n2"}
    second = runner.run(plan(challenge=other), lambda _percent: None, lambda _seconds: False)
    assert first == again
    assert first.metrics != second.metrics
    assert seen[-1] == 100
    assert first.conditions.simulated
    assert desk.calls == ["start", "commit", "open"] * 3


def test_a_profile_may_describe_a_sick_card(tmp_path: Path) -> None:
    sick = {**PROFILE["gpus"][0], "benchmark": {"fp32_tflops": 1.0}}
    result = SimulatedBenchmark(profile(tmp_path, [sick]), FakeDesk()).run(plan(), lambda _: None, lambda _: False)
    assert result.metrics.fp32_tflops == pytest.approx(1.0, rel=0.02)
    assert result.metrics.fp16_tflops is None


def test_a_cancelled_benchmark_has_no_figures(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkRefused, match="interrupted"):
        SimulatedBenchmark(profile(tmp_path), FakeDesk()).run(plan(), lambda _: None, lambda _: True)


def test_a_simulation_does_not_try_a_real_cards_product(tmp_path: Path) -> None:
    desk = FakeDesk()
    with pytest.raises(BenchmarkRefused, match="unsupported_suite"):
        SimulatedBenchmark(profile(tmp_path), desk).run(
            plan(challenge={**CHALLENGE, "n": 4096}), lambda _: None, lambda _: False
        )
    assert desk.calls == []

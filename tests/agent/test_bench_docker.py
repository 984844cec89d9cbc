"""The benchmark in containers on a real engine, behind the guard: only that GPU, nothing left, a reason for each refusal."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.bench.base import BenchmarkRefused, Measurement
from agent.bench.launch import ContainerLauncher
from agent.bench.suite import SuiteBenchmark
from agent.config import Settings
from agent.runtime.docker import DockerRuntime
from agent_protocol.messages import BenchmarkPlan
from tests.agent.desk import FakeDesk
from tests.agent.docker_engine import DockerEngine
from tests.agent.host import GPU_A
from tests.agent.registry import FakeRegistry, _layer
from tests.agent.waiting import eventually
from tests.agent_protocol.samples import BENCHMARK_PLAN, UUID_A

pytestmark = pytest.mark.engine
LEAF = "0f" * 32
# Answers as the suite does, for products of one row, whose only leaf is the root. It fails where the sandbox is not as wanted.
SUITE = f"""
shift 2
fail() {{ echo '{{"event": "failed", "reason": "'$1'"}}'; exit 1; }}
[ "$NVIDIA_VISIBLE_DEVICES" = "{GPU_A}" ] || fail gpu_missing
[ "$(id -u)" = 65534 ] && [ "$(ls /sys/class/net)" = lo ] && ! touch /root-is-writable 2>/dev/null || fail interrupted
echo "a library says hello" >&2
case $1 in
figures)
    echo '{{"event": "device", "device": "cuda", "name": "x", "memory_bytes": null}}'
    echo '{{"event": "figure", "name": "fp32_tflops", "value": 9.5, "mad_percent": 0.5, "rounds": 3, "reason": null}}'
    echo '{{"event": "circumstances", "clocks_mhz": 1, "temperature_c": 2, "throttle_reasons": [], "foreign_processes": 0}}' ;;
chain) echo '{{"event": "chain", "roots": ["{LEAF}", "{LEAF}"], "product_s": 0.5, "total_s": 1}}' ;;
open)
    shift 3
    for named; do echo '{{"event": "opening", "seed": "'${{named%%:*}}'", "row": 0, "leaf": "{LEAF}", "path": []}}'; done ;;
esac
echo '{{"event": "done"}}'
"""


@pytest.fixture(scope="module")
def registry() -> Iterator[FakeRegistry]:
    made = FakeRegistry()
    yield made
    made.close()


@pytest.fixture(scope="module")
def engine(registry: FakeRegistry) -> Iterator[DockerEngine]:
    made = DockerEngine(registries=(registry.name,))
    made.start()
    yield made
    made.close()


@pytest.fixture
def runtime(engine: DockerEngine, registry: FakeRegistry, tmp_path: Path) -> Iterator[DockerRuntime]:
    settings = Settings(
        url="https://gpunex.example",
        state=tmp_path,
        runtime="docker",
        probe="nvml",
        docker_host=engine.guard_address,
        registries=frozenset({registry.name}),
    )
    made = DockerRuntime(settings, "machine-1")
    yield made
    made.close()
    engine.empty()


def image_of(registry: FakeRegistry, script: str) -> str:
    entry = {"Env": ["PATH=/bin", "NVIDIA_VISIBLE_DEVICES=all"], "Entrypoint": ["/bin/sh", "-c", script, "suite"]}
    return f"{registry.name}/bench@{registry.put(_layer(), entry)}"


def measured(runtime: DockerRuntime, desk: FakeDesk, image: str | None, **changes: Any) -> Measurement:
    challenge = {"nonce": "n1", "n": 1, "rounds": 2}
    plan = BenchmarkPlan.parse({**BENCHMARK_PLAN, "gpu_uuid": GPU_A, "challenge": challenge, "image": image, **changes})
    return SuiteBenchmark(ContainerLauncher(runtime, "machine-1"), desk, []).run(plan, lambda _percent: None, _never)


def _never(seconds: float) -> bool:
    return threading.Event().wait(seconds)


def desk_of_one() -> FakeDesk:
    desk = FakeDesk(rows=((0, 0), (1, 0)))
    desk.size = 1
    return desk


def test_three_containers_measure_prove_and_leave_nothing(
    engine: DockerEngine, runtime: DockerRuntime, registry: FakeRegistry
) -> None:
    desk = desk_of_one()
    found = measured(runtime, desk, image_of(registry, SUITE))
    assert (found.metrics.fp32_tflops, found.conditions.device) == (9.5, "cuda")
    assert desk.calls == ["start", "commit", "open"]
    assert [each.leaf for each in desk.opened[UUID_A].openings] == [LEAF, LEAF]
    assert runtime.found() == []
    client = engine.client()
    assert client.volumes.list() == []
    client.close()


@pytest.mark.parametrize(
    ("image", "changes", "reason"),
    [
        (None, {}, "not_installed"),
        ("{registry}/busybox:1", {}, "not_installed"),
        ("{registry}/missing@sha256:" + "0" * 64, {}, "not_installed"),
        ("elsewhere.example/bench@sha256:" + "0" * 64, {}, "not_installed"),
        ("{suite}", {"gpu_uuid": "GPU-broken"}, "no_cuda"),
    ],
)
def test_what_cannot_start_has_a_reason(
    runtime: DockerRuntime, registry: FakeRegistry, image: str | None, changes: dict[str, Any], reason: str
) -> None:
    named = None if image is None else image.format(registry=registry.name, suite=image_of(registry, SUITE))
    desk = desk_of_one()
    with pytest.raises(BenchmarkRefused) as caught:
        measured(runtime, desk, named, **changes)
    assert caught.value.reason == reason
    assert desk.calls == []
    assert runtime.found() == []


def test_a_container_is_named_while_it_runs_so_that_no_sweep_takes_it_for_an_orphan(
    runtime: DockerRuntime, registry: FakeRegistry
) -> None:
    launcher = ContainerLauncher(runtime, "machine-1")
    image = image_of(registry, "exec sleep 600")
    plan = BenchmarkPlan.parse({**BENCHMARK_PLAN, "gpu_uuid": GPU_A, "image": image})
    launcher.prepare(plan, lambda _seconds: False)
    started = launcher.start(plan, ["figures"])
    eventually(lambda: runtime.found(), "it runs", timeout_s=60)
    assert {job.name for job in runtime.found()} == launcher.names()
    assert not started.ended()
    started.close()
    assert launcher.names() == frozenset()
    assert runtime.found() == []

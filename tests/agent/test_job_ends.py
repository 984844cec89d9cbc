"""How jobs end on a real Docker Engine: by a limit, by a cancellation in whatever state they are, by what their children do.

All of them run side by side under one agent; each test looks at the end of one.
"""

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import docker
import pytest

from tests.agent.docker_engine import DockerEngine, container_of
from tests.agent.docker_jobs import job, on_docker
from tests.agent.host import GPU_A, AgentHost, attempt_body, ended
from tests.agent.platform import FakePlatform
from tests.agent.registry import FakeRegistry
from tests.agent.waiting import eventually

# One agent and one engine for all of them.
pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("job-ends")]

LIMITS: dict[str, Any] = attempt_body("")["limits"]
SMALL = {"limits": {**LIMITS, "memory_bytes": 24 * 2**20}}
CHILD_OUT_OF_MEMORY = "sh -c 'tail /dev/zero'; echo child $?; exit "
# Nothing but the shell's own words once no process can be made any more.
MANY_PROCESSES = """
(i=0; while [ $i -lt 500 ]; do sleep 600 & i=$((i+1)); done); echo ended with $?
set -- /proc/[0-9]*; echo $# processes
"""
LONG_LINE = "head -c 50000 /dev/zero | busybox tr '\\0' '\\377'; printf 'in the same line\\nnext'"
STATE_OF = "SELECT state FROM attempt WHERE attempt_id = ?"
TRAPS = "trap '{}' TERM; echo ready; while :; do sleep 0.1; done"


@dataclass
class Scene:
    platform: FakePlatform
    host: AgentHost
    engine: DockerEngine
    registry: FakeRegistry
    jobs: dict[str, dict[str, Any]]

    def put(self, name: str, script: str, **changes: Any) -> dict[str, Any]:
        body = self.jobs[name] = job(self.registry, script, **changes)
        self.platform.plan_put("attempt", body)
        return body

    def cancel(self, name: str) -> None:
        self.platform.attempt_stop(self.jobs[name]["attempt_id"], "cancelled")

    def end(self, name: str) -> dict[str, Any]:
        return ended(self.platform, self.jobs[name], timeout_s=180)

    def log(self, name: str) -> bytes:
        return self.platform.log(self.jobs[name]["attempt_id"])

    def ready(self, name: str) -> None:
        eventually(lambda: b"ready" in self.log(name), f"{name} is ready", 180)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    platform, registry = FakePlatform(), FakeRegistry()
    engine = DockerEngine(registries=(registry.name,)).start()
    host = on_docker(AgentHost(platform.url, tmp_path_factory.mktemp("agent")), engine, registry)
    made = Scene(platform, host, engine, registry, {})
    made.put("disk", "head -c 3000000 /dev/zero > /workspace/big; sleep 600", limits={**LIMITS, "disk_bytes": 2**21})
    made.put("time", "sleep 600", time_limit_s=1)
    made.put("processes", MANY_PROCESSES)
    made.put("child, then failed", f"{CHILD_OUT_OF_MEMORY}3", **SMALL)
    made.put("child, then went on", f"{CHILD_OUT_OF_MEMORY}0", **SMALL)
    made.put("long line", LONG_LINE)
    made.put("polite", TRAPS.format("echo bye; exit 0"))
    made.put("stubborn", TRAPS.format(""), gpu_uuids=[GPU_A])
    made.put("from the start", "echo never", desired="stop", stop_reason="cancelled")
    made.put("over", "exit 5")
    host.start()
    yield made
    host.clean_up()
    engine.close()
    registry.close()
    platform.close()
    assert platform.violations == []


def test_a_job_that_writes_more_than_its_disk_is_stopped(scene: Scene) -> None:
    report = scene.end("disk")
    assert (report["reason"], report["exit_code"]) == ("disk_limit", 143)


def test_a_job_beyond_its_time_is_stopped(scene: Scene) -> None:
    report = scene.end("time")
    assert (report["reason"], report["exit_code"]) == ("time_limit", 143)
    assert report["elapsed_s"] >= 1


def test_a_job_gets_no_more_processes_than_it_may(scene: Scene) -> None:
    report = scene.end("processes")
    assert (report["reason"], report["exit_code"]) == ("completed", 0)
    said = scene.log("processes").decode()
    assert "can't fork" in said
    assert "ended with 2" in said
    assert LIMITS["pids"] - 8 <= int(said.rpartition(" processes")[0].split()[-1]) <= LIMITS["pids"]


@pytest.mark.parametrize(
    ("name", "reason", "exit_code"),
    [("child, then failed", "out_of_memory", 3), ("child, then went on", "completed", 0)],
)
def test_a_child_that_ran_out_of_memory_explains_its_parents_failure_and_nothing_else(
    scene: Scene, name: str, reason: str, exit_code: int
) -> None:
    report = scene.end(name)
    assert b"child 137" in scene.log(name)
    assert (report["reason"], report["exit_code"], report["oom_killed"]) == (reason, exit_code, True)


def test_a_line_that_the_engine_splits_arrives_whole_with_bytes_that_are_no_text(scene: Scene) -> None:
    assert scene.end("long line")["reason"] == "completed"
    assert scene.log("long line") == b"\xff" * 50_000 + b"in the same line\nnext"


def test_cancelled_from_the_start_it_never_runs(scene: Scene) -> None:
    report = scene.end("from the start")
    assert (report["reason"], report["exit_code"], report["elapsed_s"]) == ("cancelled", None, None)
    assert scene.log("from the start") == b""


def test_cancelled_while_it_runs_it_may_leave_with_0_and_has_not_completed(scene: Scene) -> None:
    scene.ready("polite")
    scene.cancel("polite")
    report = scene.end("polite")
    assert (report["reason"], report["exit_code"]) == ("cancelled", 0)
    assert scene.log("polite").endswith(b"bye\n")


def test_cancelled_while_it_waits_for_a_gpu_and_while_it_is_being_stopped(scene: Scene) -> None:
    scene.ready("stubborn")
    waits = scene.put("waits", "echo never", gpu_uuids=[GPU_A])
    eventually(lambda: scene.platform.state(waits["attempt_id"]) == "pulling", "it waits for the GPU", 60)
    scene.cancel("waits")
    assert scene.end("waits")["reason"] == "cancelled"
    stubborn = scene.jobs["stubborn"]["attempt_id"]
    scene.platform.attempt_stop(stubborn, "balance_exhausted")
    eventually(lambda: scene.platform.state(stubborn) in ("stopping", "ended"), "it is being stopped", 60)
    scene.cancel("stubborn")
    report = scene.end("stubborn")
    # TERM changed nothing, KILL did, and the first reason stays.
    assert (report["reason"], report["exit_code"]) == ("balance_exhausted", 137)


def test_cancelled_while_it_starts(scene: Scene) -> None:
    """The guard is held in the middle of the start, so that the order comes then."""
    guard = scene.engine.guard.process
    assert guard is not None

    def caught() -> str | None:
        name = f"starts {len(scene.jobs)}"
        body = scene.put(name, "sleep 600")
        state = ""
        while state not in ("starting", "running"):
            state = "".join(row[0] for row in scene.host.sql(STATE_OF, body["attempt_id"]))
        guard.send_signal(signal.SIGSTOP)
        if scene.host.sql(STATE_OF, body["attempt_id"]) == [("starting",)]:
            return name
        guard.send_signal(signal.SIGCONT)
        scene.cancel(name)
        return None

    try:
        name = eventually(caught, "an attempt is held while it starts", 120)
        scene.cancel(name)
        eventually(lambda: scene.platform.last_sync().plan_version == scene.platform.plan_version, "it is told", 60)
        assert scene.platform.state(scene.jobs[name]["attempt_id"]) == "starting"
    finally:
        guard.send_signal(signal.SIGCONT)
    assert scene.end(name)["reason"] == "cancelled"
    eventually(lambda: container_of(scene.engine, scene.jobs[name]) is None, "nothing of it is left", 60)


def test_cancelled_when_it_is_over_it_stays_as_it_ended(scene: Scene) -> None:
    report = scene.end("over")
    scene.cancel("over")
    eventually(lambda: scene.platform.last_sync().plan_version == scene.platform.plan_version, "it is told", 60)
    assert scene.end("over") == report
    assert (report["reason"], report["exit_code"]) == ("nonzero_exit", 5)


def test_nothing_is_left_of_any_of_them(scene: Scene) -> None:
    for name in scene.jobs:
        if scene.platform.state(scene.jobs[name]["attempt_id"]) != "ended":
            scene.cancel(name)
        scene.end(name)
    client = docker.DockerClient(base_url=scene.engine.address)
    try:
        eventually(lambda: client.api.containers(all=True) == client.volumes.list() == [], "nothing is left", 60)
    finally:
        client.close()

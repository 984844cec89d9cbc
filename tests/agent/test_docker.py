"""Jobs on a real Docker Engine: the sandbox seen from inside, adoption, restarts of agent and engine, ends and reasons."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.runtime.base import ImageGone, JobState, RuntimeRefused
from agent.runtime.docker import DockerRuntime
from agent_protocol.reasons import Owner, reason_get
from tests.agent.docker_engine import DockerEngine, container_of
from tests.agent.docker_jobs import job, on_docker, settings
from tests.agent.guard_requests import order_of as order
from tests.agent.host import GPU_A, AgentHost, attempt_body, ended, running
from tests.agent.platform import FakePlatform
from tests.agent.registry import FakeRegistry, _layer
from tests.agent.waiting import eventually

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def registry() -> Iterator[FakeRegistry]:
    made = FakeRegistry()
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared_engine(registry: FakeRegistry) -> Iterator[DockerEngine]:
    made = DockerEngine(registries=(registry.name,))
    made.start()
    yield made
    made.close()


@pytest.fixture
def engine(shared_engine: DockerEngine) -> Iterator[DockerEngine]:
    yield shared_engine
    shared_engine.empty()


@pytest.fixture
def docker_host(host: AgentHost, engine: DockerEngine, registry: FakeRegistry) -> AgentHost:
    return on_docker(host, engine, registry)


INSIDE = """
id -u; id -g; grep -E 'CapEff|NoNewPrivs|Seccomp:' /proc/self/status
touch /root-is-writable 2>/dev/null && echo ROOTFS-WRITABLE
touch /tmp/t && echo tmp-ok; touch /workspace/w && echo workspace-ok; touch /declared/d && echo declared-ok
grep -E ' (/tmp|/declared|/workspace|/dev/shm) ' /proc/mounts
ls /sys/class/net; env
cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory.swap.max /sys/fs/cgroup/pids.max /sys/fs/cgroup/cpu.max 2>/dev/null
cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/pids/pids.max 2>/dev/null
cat /proc/1/comm
"""


def test_the_sandbox_holds_seen_from_inside(
    platform: FakePlatform, docker_host: AgentHost, registry: FakeRegistry
) -> None:
    environment = {"LD_PRELOAD": "/x.so", "NVIDIA_VISIBLE_DEVICES": "all", "CUDA_VISIBLE_DEVICES": "0", "SEED": "7"}
    body = job(registry, INSIDE, environment=environment)
    platform.plan_put("attempt", body)
    docker_host.start()
    assert ended(platform, body)["reason"] == "completed"
    seen = platform.log(body["attempt_id"]).decode()
    lines = seen.splitlines()
    assert lines[:2] == ["65534", "65534"]
    assert "CapEff:\t0000000000000000" in lines
    assert "NoNewPrivs:\t1" in lines
    assert "Seccomp:\t2" in lines
    assert "ROOTFS-WRITABLE" not in seen
    assert {"tmp-ok", "workspace-ok", "declared-ok"} <= set(lines)
    for path in ("/tmp", "/declared"):
        assert any(f" {path} tmpfs " in line and "nosuid" in line for line in lines), path
    assert "size=1024k" in next(line for line in lines if " /dev/shm " in line)
    assert "lo" in lines
    assert "eth0" not in lines
    assert "SEED=7" in lines
    assert "KEPT=yes" in lines
    assert "NVIDIA_VISIBLE_DEVICES=void" in lines
    assert "LD_PRELOAD=" in lines
    assert "NVIDIA_REQUIRE_CUDA=" in lines
    assert "LD_LIBRARY_PATH=/usr/local/nvidia/lib:/usr/local/nvidia/lib64" in lines
    assert not any(line.startswith("CUDA_VISIBLE_DEVICES") for line in lines)
    assert str(2**27) in lines
    assert "64" in lines
    assert any("init" in line for line in lines[-1:]), "an init reaps the job's children"


def test_gpus_are_ordered_by_uuid_and_everything_else_is_tight(
    platform: FakePlatform, docker_host: AgentHost, engine: DockerEngine, registry: FakeRegistry
) -> None:
    body = job(registry, "env; sleep 600", gpu_uuids=[GPU_A])
    platform.plan_put("attempt", body)
    docker_host.start()
    running(platform, body)
    found: Any = container_of(engine, body)
    config = found["HostConfig"]
    (request,) = config["DeviceRequests"]
    assert request["DeviceIDs"] == [GPU_A]
    assert request["Count"] == 0
    assert request["Capabilities"] == [["gpu", "compute", "utility"]]
    assert config["CapDrop"] == ["ALL"]
    assert config["CapAdd"] is None
    assert config["Privileged"] is False
    assert config["ReadonlyRootfs"] is True
    assert config["SecurityOpt"] == ["no-new-privileges"]
    assert config["Memory"] == config["MemorySwap"] == 2**27
    assert config["NanoCpus"] == 1_000_000_000
    assert config["PidsLimit"] == 64
    assert config["NetworkMode"] == "none"
    assert config["IpcMode"] == "private"
    assert config["RestartPolicy"]["Name"] == "no"
    assert config["Init"] is True
    assert config["LogConfig"]["Type"] == "local"
    assert config["Devices"] is None or config["Devices"] == []
    assert [mount["Destination"] for mount in found["Mounts"] if mount["Type"] == "volume"] == ["/workspace"]
    assert found["Config"]["Labels"]["gpunex.attempt_id"] == body["attempt_id"]
    assert found["Config"]["Labels"]["traefik.enable"] == ""
    assert found["Config"]["Healthcheck"]["Test"] == ["NONE"]
    assert found["Image"].startswith("sha256:")
    assert found["Config"]["Image"].endswith(registry.digest)
    eventually(lambda: f"NVIDIA_VISIBLE_DEVICES={GPU_A}".encode() in platform.log(body["attempt_id"]), "its GPU")
    platform.attempt_stop(body["attempt_id"], "cancelled")
    assert ended(platform, body)["reason"] == "cancelled"
    eventually(lambda: container_of(engine, body) is None, "the container is gone")
    client = engine.client()
    assert client.volumes.list() == []
    client.close()


def test_an_image_from_elsewhere_is_not_even_asked_for(docker_runtime: DockerRuntime, registry: FakeRegistry) -> None:
    with pytest.raises(RuntimeRefused) as caught:
        docker_runtime.prepare(order(job(registry, "true", image="10.0.0.1:5000/x")), lambda: False)
    assert (caught.value.reason, caught.value.message_code) == ("image_missing", "registry_address")


def test_a_gpu_that_cannot_be_injected_is_the_providers_fault(
    docker_runtime: DockerRuntime, registry: FakeRegistry
) -> None:
    wanted = order(job(registry, "true", gpu_uuids=["GPU-broken"]))
    image = docker_runtime.prepare(wanted, lambda: False)
    with pytest.raises(RuntimeRefused) as caught:
        docker_runtime.start(wanted, image)
    assert caught.value.reason == "device_injection_failed"


def test_an_image_that_its_owner_pruned_before_the_start_is_no_fault_of_the_customers(
    docker_runtime: DockerRuntime, engine: DockerEngine, registry: FakeRegistry
) -> None:
    """`docker image prune` takes what bears no tag. Prepared once more, it starts."""
    wanted = order(job(registry, "sleep 600"))
    image = docker_runtime.prepare(wanted, lambda: False)
    client = engine.client()
    assert client.images.prune()["ImagesDeleted"]
    client.close()
    with pytest.raises(ImageGone) as caught:
        docker_runtime.start(wanted, image)
    assert reason_get(caught.value.reason).owner is Owner.PROVIDER
    docker_runtime.start(wanted, docker_runtime.prepare(wanted, lambda: False))
    assert docker_runtime.observe(wanted.name).state is JobState.RUNNING
    docker_runtime.kill(wanted.name)
    docker_runtime.release(wanted.name)


@pytest.mark.parametrize("volumes", [["/"], ["/proc/x"], ["/dev"], ["relative"], [f"/volume{n}" for n in range(40)]])
def test_an_image_that_no_sandbox_can_hold_is_the_customers(
    docker_runtime: DockerRuntime, registry: FakeRegistry, volumes: list[str]
) -> None:
    """Otherwise whoever wants to could ruin a provider's score with an image of his own."""
    digest = registry.put(_layer(), {"Volumes": {path: {} for path in volumes}})
    wanted = order(job(registry, "true", image=f"{registry.name}/odd@{digest}"))
    image = docker_runtime.prepare(wanted, lambda: False)
    with pytest.raises(RuntimeRefused) as caught:
        docker_runtime.start(wanted, image)
    assert (caught.value.reason, caught.value.message_code) == ("image_missing", "unusable")
    docker_runtime.release(wanted.name)


def test_a_command_that_does_not_exist_is_the_customers(
    platform: FakePlatform, docker_host: AgentHost, registry: FakeRegistry
) -> None:
    body = {**job(registry, ""), "command": ["/no/such/program"]}
    platform.plan_put("attempt", body)
    docker_host.start()
    report = ended(platform, body)
    assert (report["exit_code"], report["reason"]) == (127, "nonzero_exit")


def test_creating_twice_adopts_and_a_strangers_name_is_refused(
    docker_runtime: DockerRuntime, engine: DockerEngine, registry: FakeRegistry, tmp_path: Path
) -> None:
    wanted = order(job(registry, "sleep 600"))
    image = docker_runtime.prepare(wanted, lambda: False)
    docker_runtime.start(wanted, image)
    client = engine.client()
    first = client.containers.get(wanted.name).id
    docker_runtime.start(wanted, image)
    # The 409 itself: the name is taken between our look and our create.
    docker_runtime._create(wanted, image)
    assert client.containers.get(wanted.name).id == first
    client.close()
    stranger = DockerRuntime(settings(engine, registry, tmp_path / "other"), "another-machine")
    with pytest.raises(RuntimeRefused) as caught:
        stranger.start(wanted, image)
    assert caught.value.message_code == "name_taken"
    assert stranger.found() == []
    stranger.close()


def test_what_a_job_writes_is_measured_where_the_engine_has_no_quota(
    docker_runtime: DockerRuntime, registry: FakeRegistry
) -> None:
    wanted = order(job(registry, "head -c 3000000 /dev/zero > /workspace/big"))
    docker_runtime.start(wanted, docker_runtime.prepare(wanted, lambda: False))
    eventually(lambda: docker_runtime.observe(wanted.name).state == "exited", "it ends")
    used = docker_runtime.disk_used_bytes(wanted.name)
    assert used is not None
    assert 3_000_000 <= used < 4_000_000
    docker_runtime.release(wanted.name)
    assert docker_runtime.disk_used_bytes(wanted.name) is None


@pytest.fixture
def docker_runtime(engine: DockerEngine, registry: FakeRegistry, tmp_path: Path) -> Iterator[DockerRuntime]:
    runtime = DockerRuntime(settings(engine, registry, tmp_path), "machine-1")
    yield runtime
    runtime.close()


CHATTER = r"i=0; while [ $i -lt 80 ]; do i=$((i+1)); printf 'line %d \377\376\n' $i; sleep 0.03; done; exit 7"
CHATTER_LOG = b"".join(b"line %d \xff\xfe\n" % number for number in range(1, 81))


def test_a_new_agent_adopts_the_container_and_loses_no_byte(
    platform: FakePlatform, docker_host: AgentHost, registry: FakeRegistry
) -> None:
    body = job(registry, CHATTER)
    platform.plan_put("attempt", body)
    docker_host.start()
    eventually(lambda: b"line 10 " in platform.log(body["attempt_id"]), "some output")
    docker_host.kill()
    docker_host.start()
    report = ended(platform, body)
    assert (report["exit_code"], report["reason"]) == (7, "nonzero_exit")
    assert platform.log(body["attempt_id"]) == CHATTER_LOG


def test_a_guard_that_was_killed_costs_no_job_and_no_byte(
    platform: FakePlatform, docker_host: AgentHost, engine: DockerEngine, registry: FakeRegistry
) -> None:
    body = job(registry, CHATTER)
    platform.plan_put("attempt", body)
    docker_host.start()
    eventually(lambda: b"line 10 " in platform.log(body["attempt_id"]), "some output")
    engine.guard.stop(signal.SIGKILL)
    engine.guard.start()
    report = ended(platform, body)
    assert (report["exit_code"], report["reason"]) == (7, "nonzero_exit")
    assert platform.log(body["attempt_id"]) == CHATTER_LOG


def test_a_job_beyond_its_memory_is_the_customers(
    platform: FakePlatform, docker_host: AgentHost, registry: FakeRegistry
) -> None:
    limits = {**attempt_body("")["limits"], "memory_bytes": 16 * 2**20}
    body = job(registry, "tail /dev/zero", limits=limits)
    platform.plan_put("attempt", body)
    docker_host.start()
    report = ended(platform, body)
    assert (report["reason"], report["oom_killed"], report["exit_code"]) == ("out_of_memory", True, 137)


def test_a_job_killed_from_outside_is_nobodys_fault_yet(
    platform: FakePlatform, docker_host: AgentHost, engine: DockerEngine, registry: FakeRegistry
) -> None:
    body = job(registry, "sleep 600")
    platform.plan_put("attempt", body)
    docker_host.start()
    running(platform, body)
    client = engine.client()
    client.api.kill(f"gpunex-job-{body['job_id']}-1")
    client.close()
    report = ended(platform, body)
    assert (report["exit_code"], report["reason"]) == (137, "unknown")


def test_output_beyond_the_limit_is_cut_with_a_mark(
    platform: FakePlatform, docker_host: AgentHost, registry: FakeRegistry
) -> None:
    body = job(registry, "head -c 300000 /dev/zero", log_limit_bytes=100_000)
    platform.plan_put("attempt", body)
    docker_host.start()
    ended(platform, body)
    kept = platform.log(body["attempt_id"])
    assert kept[:100_000] == b"\0" * 100_000
    assert kept[100_000:].startswith(b"\n[log limit reached")


def test_an_orphan_container_is_removed_and_a_strangers_is_not(
    platform: FakePlatform, docker_host: AgentHost, engine: DockerEngine, registry: FakeRegistry
) -> None:
    body = job(registry, "sleep 600")
    platform.plan_put("attempt", body)
    docker_host.start()
    running(platform, body)
    docker_host.kill()
    docker_host.sql("DELETE FROM attempt")
    platform.plan_remove(body["attempt_id"])
    client = engine.client()
    stranger = client.containers.create(
        f"{registry.name}/busybox@{registry.digest}", ["sleep", "600"], network_mode="none"
    )
    docker_host.start()
    eventually(lambda: platform.events_of("orphan"), "the orphan is reported")
    assert [each.id for each in client.containers.list(all=True, ignore_removed=True)] == [stranger.id]
    client.close()


TRAPPED = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.05; done"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_engine_restart_is_not_a_completed_job(
    platform: FakePlatform, host: AgentHost, registry: FakeRegistry, number: signal.Signals
) -> None:
    """Without live-restore: a job that traps the engine's TERM leaves with exit code 0 and looks completed."""
    own = DockerEngine(live_restore=False, registries=(registry.name,))
    try:
        own.start()
        on_docker(host, own, registry)
        body = job(registry, TRAPPED)
        platform.plan_put("attempt", body)
        host.start()
        eventually(lambda: b"ready" in platform.log(body["attempt_id"]), "it is ready")
        own.stop(number)
        eventually(lambda: "the engine does not answer" in host.journal(), "the agent notices")
        assert platform.ends(body["attempt_id"]) == []
        own.start()
        report = ended(platform, body)
        assert report["reason"] == "engine_restart"
        if number is signal.SIGTERM:
            assert report["exit_code"] == 0
    finally:
        host.clean_up()
        own.close()


def test_a_job_survives_an_engine_restart_with_live_restore(
    platform: FakePlatform, docker_host: AgentHost, engine: DockerEngine, registry: FakeRegistry
) -> None:
    body = job(registry, f"{CHATTER[: -len('exit 7')]} sleep 1; exit 7")
    platform.plan_put("attempt", body)
    docker_host.start()
    eventually(lambda: b"line 10 " in platform.log(body["attempt_id"]), "some output")
    engine.stop()
    engine.start()
    report = ended(platform, body)
    assert (report["exit_code"], report["reason"]) == (7, "nonzero_exit")
    # The engine itself may lose lines while it is away; what it has arrives once and in order.
    numbers = [line for line in platform.log(body["attempt_id"]).splitlines() if line.startswith(b"line ")]
    assert len(numbers) == len(set(numbers))


def test_an_agent_with_docker_stays_small(platform: FakePlatform, docker_host: AgentHost) -> None:
    docker_host.start()
    eventually(lambda: len(platform.syncs) > 10, "it has settled")
    assert docker_host.rss_bytes() < 60 * 2**20
    assert platform.syncs[0].inventory is not None
    assert platform.syncs[0].inventory.host.engine == "docker"

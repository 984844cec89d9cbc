"""The heartbeat: what it says, and that it holds on."""

from uuid import uuid4

import pytest

from tests.agent.host import GPU_A, GPU_B, AgentHost, attempt_body, ended, running
from tests.agent.platform import FakePlatform
from tests.agent.waiting import eventually


def benchmark_body(**changes: object) -> dict[str, object]:
    return {
        "run_id": str(uuid4()),
        "gpu_uuid": GPU_A,
        "suite_version": 1,
        "challenge": {"nonce": "n1", "n": 16, "rounds": 2},
        "time_limit_s": 60,
        **changes,
    }


def test_the_first_sync_brings_the_inventory_and_later_ones_only_its_digest(
    platform: FakePlatform, host: AgentHost
) -> None:
    host.start()
    eventually(lambda: len(platform.syncs) >= 3, "three syncs")
    first, later = platform.syncs[0], platform.syncs[2]
    assert first.inventory is not None
    assert {gpu.uuid for gpu in first.inventory.gpus} == {GPU_A, GPU_B}
    assert first.inventory.host.engine == "process"
    assert later.inventory is None
    assert later.inventory_digest == first.inventory_digest
    assert {reading.uuid for reading in later.telemetry} == {GPU_A, GPU_B}
    assert platform.enrolments[0].simulated is True


def test_only_the_offered_gpus_are_shown(platform: FakePlatform, host: AgentHost) -> None:
    host.options["--gpus"] = GPU_B
    host.start()
    eventually(lambda: platform.syncs, "a sync")
    first = platform.syncs[0]
    assert first.inventory is not None
    assert [gpu.uuid for gpu in first.inventory.gpus] == [GPU_B]
    assert [reading.uuid for reading in first.telemetry] == [GPU_B]


def test_the_bell_brings_a_sync_at_once(platform: FakePlatform, host: AgentHost) -> None:
    host.options["--sync-interval"] = "600"  # far beyond every deadline here
    host.start()
    eventually(lambda: platform.bells, "the bell is followed")
    eventually(lambda: len(platform.syncs) >= 2, "the sync after opening the bell")
    body = attempt_body("echo hello")
    platform.plan_put("attempt", body)
    platform.ring()
    ended(platform, body)
    assert platform.log(body["attempt_id"]) == b"hello\n"


@pytest.mark.parametrize("status", [500, 429])
def test_it_comes_back_after_failures(platform: FakePlatform, host: AgentHost, status: int) -> None:
    body = attempt_body("echo hello")
    platform.plan_put("attempt", body)
    for path in ("/sync", "/events", "/logs"):
        platform.fault(path, count=2, status=status, retry_after_s=0.2)
    host.start()
    assert ended(platform, body)["reason"] == "completed"


def test_it_does_not_ask_before_it_may(platform: FakePlatform, host: AgentHost) -> None:
    host.start()
    eventually(lambda: platform.bells and len(platform.syncs) > 2, "syncs")
    platform.fault("/sync", count=1, status=429, retry_after_s=30)
    eventually(lambda: platform.faults[0].count == 0, "the platform asks for quiet")
    seen = len(platform.syncs)
    platform.ring()
    body = attempt_body("true")
    platform.plan_put("attempt", body)
    with pytest.raises(AssertionError, match="did not happen"):
        eventually(lambda: len(platform.syncs) > seen, "a sync during the quiet", timeout_s=1.0)


def test_dropped_replies_do_nothing_twice(platform: FakePlatform, host: AgentHost) -> None:
    body = attempt_body("echo once")
    for path in ("/sync", "/events", "/logs"):
        platform.fault(path, count=2)
    platform.plan_put("attempt", body)
    host.start()
    ended(platform, body)
    assert platform.log(body["attempt_id"]) == b"once\n"
    eventually(lambda: len(platform.deliveries) > len(platform.events), "the end is told again")
    assert len(platform.ends(body["attempt_id"])) == 1


def test_a_repeated_plan_changes_nothing(platform: FakePlatform, host: AgentHost) -> None:
    platform.always_send_plan = True
    body = attempt_body("echo once; sleep 0.5")
    platform.plan_put("attempt", body)
    host.start()
    ended(platform, body)
    seen = len(platform.syncs)
    eventually(lambda: len(platform.syncs) > seen + 3, "more syncs with the same plan")
    assert platform.log(body["attempt_id"]) == b"once\n"
    assert platform.state(body["attempt_id"]) == "ended"


def test_a_reply_without_items_stops_nothing(platform: FakePlatform, host: AgentHost) -> None:
    body = attempt_body("sleep 600")
    platform.plan_put("attempt", body)
    host.start()
    running(platform, body)
    with platform.lock:
        platform.withhold_items = True
        platform.plan_version += 1
        asked = platform.plan_version
    seen = len(platform.syncs)
    eventually(lambda: len(platform.syncs) > seen + 3, "more syncs")
    assert platform.state(body["attempt_id"]) == "running"
    assert platform.last_sync().plan_version == asked - 1


def test_a_plan_item_that_cannot_be_read_does_not_hide_the_others(platform: FakePlatform, host: AgentHost) -> None:
    bad, good = attempt_body("true", time_limit_s=-1), attempt_body("echo fine")
    platform.plan_put("attempt", bad)
    platform.plan_put("telepathy", {"run_id": str(uuid4())})
    platform.plan_put("attempt", good)
    host.start()
    ended(platform, good)
    assert platform.attempt(bad["attempt_id"]) is None


def test_a_revoked_machine_stops_its_jobs_after_their_grace_and_ends(platform: FakePlatform, host: AgentHost) -> None:
    body = attempt_body("sleep 600", disconnect_grace_s=1)
    platform.plan_put("attempt", body)
    host.start()
    running(platform, body)
    assert host.job_running(body)
    platform.revoked = True
    platform.ring("revoke")
    assert host.exit_code() == 3
    eventually(lambda: not host.job_running(body), "the job has ended")


def test_an_unknown_credential_is_not_a_revocation(platform: FakePlatform, host: AgentHost) -> None:
    host.start()
    eventually(lambda: platform.syncs, "a sync")
    with platform.lock:
        kept, platform.credentials = platform.credentials, {}
        seen = len(platform.syncs)
    eventually(lambda: "unknown_credential" in host.journal(), "the refusal is heard")
    platform.credentials = kept
    eventually(lambda: len(platform.syncs) > seen, "a sync afterwards")


def test_a_benchmark_is_measured_once_reported_and_labelled_simulated(platform: FakePlatform, host: AgentHost) -> None:
    body = benchmark_body()
    platform.plan_put("benchmark", body)
    host.start()
    reports = eventually(lambda: platform.events_of("benchmark_report"), "the report")
    assert reports[0]["run_id"] == body["run_id"]
    assert reports[0]["nonce"] == "n1"
    assert reports[0]["conditions"]["simulated"] is True
    assert reports[0]["conditions"]["device"] == "simulated"
    assert 8.5 < reports[0]["metrics"]["fp32_tflops"] < 9.5
    eventually(lambda: [each.state for each in platform.last_sync().benchmarks] == ["done"], "done in the sync")
    host.kill()
    seen = len(platform.syncs)
    host.start()
    eventually(lambda: len(platform.syncs) > seen + 2, "syncs of the second process")
    assert [each.state for each in platform.last_sync().benchmarks] == ["done"]
    platform.plan_remove(str(body["run_id"]))
    eventually(lambda: platform.last_sync().benchmarks == (), "the run is forgotten")
    assert len(platform.events_of("benchmark_report")) == 1


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"gpu_uuid": "GPU-unknown"}, "gpu_missing"), ({"suite_version": 99}, "unsupported_suite")],
)
def test_a_benchmark_that_cannot_be_says_why(
    platform: FakePlatform, host: AgentHost, changes: dict[str, object], reason: str
) -> None:
    platform.plan_put("benchmark", benchmark_body(**changes))
    host.start()
    failures = eventually(lambda: platform.events_of("benchmark_failed"), "the failure")
    assert failures[0]["reason"] == reason


def test_a_benchmark_waits_for_the_job_on_its_gpu(platform: FakePlatform, host: AgentHost) -> None:
    job, run = attempt_body("sleep 600"), benchmark_body()
    platform.plan_put("attempt", job)
    host.start()
    running(platform, job)
    platform.plan_put("benchmark", run)
    eventually(lambda: [each.state for each in platform.last_sync().benchmarks] == ["waiting"], "it waits")
    platform.attempt_stop(job["attempt_id"], "cancelled")
    eventually(lambda: platform.events_of("benchmark_report"), "the report")


def test_an_idle_agent_is_small(platform: FakePlatform, host: AgentHost) -> None:
    host.start()
    eventually(lambda: len(platform.syncs) > 10, "it has settled")
    assert host.rss_bytes() < 60 * 2**20

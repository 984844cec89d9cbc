"""Jobs under the process runtime: run, shipped, stopped, adopted, never doubled."""

import json
import os
import signal
from pathlib import Path
from uuid import uuid4

import pytest

from tests.agent.host import AgentHost, attempt_body, ended, running
from tests.agent.platform import FakePlatform
from tests.agent.waiting import eventually

# Lines with bytes that are no UTF-8: some before a gate, while the agent is replaced, and some behind it.
LINE = r"i=$((i+1)); printf 'line %d \377\376\n' $i; sleep 0.02"
CHATTER_LOG = b"".join(b"line %d \xff\xfe\n" % number for number in range(1, 101))
STUBBORN = "trap '' TERM; echo ready; while :; do sleep 0.05; done"


def gate_of(host: AgentHost) -> Path:
    """A file, not there yet, that jobs can see: they run as nobody."""
    for folder in [host.folder, *host.folder.parents][:4]:
        folder.chmod(0o755)
    return host.folder / "gate"


def test_a_job_runs_and_its_output_and_exit_code_arrive(platform: FakePlatform, host: AgentHost) -> None:
    body = attempt_body(r"echo out; echo err >&2; printf 'raw \377'; exit 3")
    platform.plan_put("attempt", body)
    host.start()
    report = ended(platform, body)
    assert (report["exit_code"], report["reason"], report["token"]) == (3, "nonzero_exit", body["token"])
    assert platform.log(body["attempt_id"]) == b"out\nerr\nraw \xff"
    eventually(lambda: platform.state(body["attempt_id"]) == "ended", "the sync says so too")
    status = platform.attempt(body["attempt_id"])
    assert status is not None
    assert (status["state"], status["exit_code"], status["reason"]) == ("ended", 3, "nonzero_exit")


def test_a_job_gets_its_own_environment_and_no_rights(platform: FakePlatform, host: AgentHost) -> None:
    host.environment["SECRET_OF_THE_HOST"] = "hunter2"
    body = attempt_body("env | sort; id -u; id -G; touch here && pwd", environment={"SEED": "7"})
    platform.plan_put("attempt", body)
    host.start()
    assert ended(platform, body)["exit_code"] == 0
    lines = platform.log(body["attempt_id"]).decode().splitlines()
    names = {line.partition("=")[0] for line in lines if "=" in line}
    assert names == {"HOME", "PATH", "PWD", "SEED"}
    assert "SEED=7" in lines
    if os.geteuid() == 0:
        assert lines[-3:-1] == ["65534", "65534"]
    workspace = lines[-1]
    assert "gpunex-job-" in workspace
    eventually(lambda: not Path(workspace).exists(), "the workspace is gone")


def test_secrets_of_a_job_are_neither_on_disk_nor_in_the_journal(platform: FakePlatform, host: AgentHost) -> None:
    body = attempt_body("sleep 600", environment={"API_KEY": "swordfish-4711"})
    platform.plan_put("attempt", body)
    host.start()
    running(platform, body)
    for path in [host.folder / "agent.log", *host.state.rglob("*")]:
        if path.is_file():
            assert b"swordfish-4711" not in path.read_bytes(), path


def test_a_command_that_does_not_exist_is_the_customers(platform: FakePlatform, host: AgentHost) -> None:
    body = attempt_body("no-such-program", "--flag")
    platform.plan_put("attempt", body)
    host.start()
    report = ended(platform, body)
    assert (report["exit_code"], report["reason"]) == (127, "nonzero_exit")


def test_a_job_on_a_gpu_that_is_not_here_is_refused(platform: FakePlatform, host: AgentHost) -> None:
    body = attempt_body("true", gpu_uuids=["GPU-somewhere-else"])
    platform.plan_put("attempt", body)
    host.start()
    report = ended(platform, body)
    assert (report["reason"], report["message_code"]) == ("device_injection_failed", "gpu_missing")
    assert report["elapsed_s"] is None


def test_two_jobs_never_share_a_gpu(platform: FakePlatform, host: AgentHost) -> None:
    first, second = attempt_body("sleep 600"), attempt_body("echo second")
    platform.plan_put("attempt", first)
    host.start()
    running(platform, first)
    platform.plan_put("attempt", second)
    eventually(lambda: platform.state(second["attempt_id"]) == "pulling", "the second waits")
    assert not host.job_running(second)
    platform.attempt_stop(first["attempt_id"], "cancelled")
    assert ended(platform, second)["reason"] == "completed"


def test_output_beyond_the_limit_is_cut_with_a_mark(platform: FakePlatform, host: AgentHost) -> None:
    body = attempt_body("head -c 300000 /dev/zero | tr '\\0' x", log_limit_bytes=100_000)
    platform.plan_put("attempt", body)
    host.start()
    ended(platform, body)
    kept = platform.log(body["attempt_id"])
    assert kept[:100_000] == b"x" * 100_000
    assert kept[100_000:].startswith(b"\n[log limit reached")


def test_a_large_log_arrives_whole(platform: FakePlatform, host: AgentHost) -> None:
    body = attempt_body("head -c 700000 /dev/zero | tr '\\0' x")
    platform.plan_put("attempt", body)
    host.start()
    ended(platform, body)
    assert platform.log(body["attempt_id"]) == b"x" * 700_000


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_a_new_agent_adopts_the_job_and_loses_no_byte(
    platform: FakePlatform, host: AgentHost, ending: signal.Signals
) -> None:
    gate = gate_of(host)
    lines = f"while [ $i -lt 75 ]; do {LINE}; done; until [ -e {gate} ]; do sleep 0.02; done"
    body = attempt_body(f"i=0; {lines}; while [ $i -lt 100 ]; do {LINE}; done; exit 7")
    platform.plan_put("attempt", body)
    host.start()
    eventually(lambda: b"line 20 " in platform.log(body["attempt_id"]), "some output")
    if ending is signal.SIGTERM:
        assert host.terminate() == 0
    else:
        host.kill()
    assert host.job_running(body)
    assert platform.ends(body["attempt_id"]) == []
    host.start()
    eventually(lambda: "adopted" in host.journal(), "it is adopted")
    gate.touch()
    report = ended(platform, body)
    assert (report["exit_code"], report["reason"]) == (7, "nonzero_exit")
    assert platform.log(body["attempt_id"]) == CHATTER_LOG


def test_a_job_that_ends_while_no_agent_runs_is_reported_by_the_next(platform: FakePlatform, host: AgentHost) -> None:
    gate = gate_of(host)
    body = attempt_body(f"echo before; until [ -e {gate} ]; do sleep 0.02; done; echo after; exit 5")
    platform.plan_put("attempt", body)
    host.start()
    running(platform, body)
    host.kill()
    gate.touch()
    eventually(lambda: not host.job_running(body), "the job ends alone")
    host.start()
    report = ended(platform, body)
    assert (report["exit_code"], report["reason"]) == (5, "nonzero_exit")
    assert platform.log(body["attempt_id"]) == b"before\nafter\n"


def test_a_stopped_job_gets_term_and_says_why(platform: FakePlatform, host: AgentHost) -> None:
    body = attempt_body("trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.02; done")
    platform.plan_put("attempt", body)
    host.start()
    eventually(lambda: b"ready" in platform.log(body["attempt_id"]), "it is ready")
    platform.attempt_stop(body["attempt_id"], "cancelled")
    report = ended(platform, body)
    # It trapped TERM and left with 0, which would look completed.
    assert (report["exit_code"], report["reason"]) == (0, "cancelled")
    assert platform.log(body["attempt_id"]).endswith(b"bye\n")


def test_a_stubborn_job_is_killed_after_the_grace(platform: FakePlatform, host: AgentHost) -> None:
    host.options["--stop-grace"] = "0.3"
    body = attempt_body(STUBBORN)
    platform.plan_put("attempt", body)
    host.start()
    eventually(lambda: b"ready" in platform.log(body["attempt_id"]), "it is ready")
    platform.attempt_stop(body["attempt_id"], "balance_exhausted")
    report = ended(platform, body)
    assert (report["exit_code"], report["reason"]) == (137, "balance_exhausted")
    eventually(lambda: not host.job_running(body), "its supervisor has ended too")


def test_a_stop_survives_the_agent(platform: FakePlatform, host: AgentHost) -> None:
    host.options["--stop-grace"] = "600"
    body = attempt_body(STUBBORN)
    platform.plan_put("attempt", body)
    host.start()
    eventually(lambda: b"ready" in platform.log(body["attempt_id"]), "it is ready")
    platform.attempt_stop(body["attempt_id"], "cancelled")
    eventually(lambda: platform.state(body["attempt_id"]) == "stopping", "it is being stopped")
    host.kill()
    host.options["--stop-grace"] = "0.1"
    host.start()
    assert ended(platform, body)["reason"] == "cancelled"


def test_a_stop_before_the_start_starts_nothing(platform: FakePlatform, host: AgentHost) -> None:
    body = attempt_body("echo never", desired="stop", stop_reason="cancelled")
    platform.plan_put("attempt", body)
    host.start()
    report = ended(platform, body)
    assert (report["reason"], report["exit_code"], report["elapsed_s"]) == ("cancelled", None, None)
    assert platform.log(body["attempt_id"]) == b""


def test_the_time_limit_is_kept(platform: FakePlatform, host: AgentHost) -> None:
    body = attempt_body("sleep 600", time_limit_s=1)
    platform.plan_put("attempt", body)
    host.start()
    report = ended(platform, body)
    assert report["reason"] == "time_limit"
    assert report["elapsed_s"] in (1, 2)


def test_a_job_ends_by_itself_when_the_platform_is_silent_for_its_grace(
    platform: FakePlatform, host: AgentHost
) -> None:
    short = attempt_body("sleep 600", disconnect_grace_s=1)
    long = attempt_body("sleep 600", gpu_uuids=[], disconnect_grace_s=600)
    platform.plan_put("attempt", short)
    platform.plan_put("attempt", long)
    host.start()
    running(platform, short)
    running(platform, long)
    platform.partitioned = True
    eventually(lambda: not host.job_running(short), "the job with the short grace ends")
    assert host.job_running(long)
    assert platform.ends(short["attempt_id"]) == []
    platform.partitioned = False
    assert ended(platform, short)["reason"] == "offline"
    assert platform.state(long["attempt_id"]) == "running"


def test_the_silence_counts_on_while_no_agent_runs(platform: FakePlatform, host: AgentHost) -> None:
    body = attempt_body("sleep 600", disconnect_grace_s=2)
    platform.plan_put("attempt", body)
    host.start()
    running(platform, body)
    host.kill()
    platform.partitioned = True
    host.sql("UPDATE identity SET contact_boot_s = contact_boot_s - 600")
    host.start()
    eventually(lambda: not host.job_running(body), "it ends before the platform is heard again")


def test_the_end_survives_the_agent_and_arrives_once(platform: FakePlatform, host: AgentHost) -> None:
    body = attempt_body("echo hello")
    platform.fault("/events", count=1_000_000, status=503)
    platform.plan_put("attempt", body)
    host.start()
    eventually(lambda: platform.state(body["attempt_id"]) == "ended", "it ended")
    waiting = host.sql("SELECT id FROM outbox")
    assert len(waiting) == 1
    host.kill()
    platform.faults.clear()
    host.start()
    assert ended(platform, body)["reason"] == "completed"
    assert set(platform.deliveries) == {waiting[0][0]}
    eventually(lambda: host.sql("SELECT count(*) FROM outbox") == [(0,)], "the outbox is empty")


def test_a_poisoned_event_does_not_hold_up_the_others(platform: FakePlatform, host: AgentHost) -> None:
    bodies = [attempt_body("true", gpu_uuids=[]) for _ in range(2)]
    platform.fault("/events", count=1_000_000, status=503)
    for body in bodies:
        platform.plan_put("attempt", body)
    host.start()
    for body in bodies:
        eventually(lambda body=body: platform.state(body["attempt_id"]) == "ended", "it ended")
    platform.faults.clear()
    platform.fault("/events", count=2, status=400)
    eventually(lambda: host.sql("SELECT count(*) FROM outbox") == [(0,)], "the outbox is empty")
    assert len(platform.events_of("attempt_ended")) == 1


def test_a_report_under_an_old_token_is_not_repeated_for_ever(platform: FakePlatform, host: AgentHost) -> None:
    body = attempt_body("echo hello")
    platform.fault("/events", count=3, status=503)
    platform.plan_put("attempt", body)
    host.start()
    eventually(lambda: platform.state(body["attempt_id"]) == "ended", "it ended")
    platform.plan_put("attempt", {**body, "token": "another"})
    eventually(lambda: host.sql("SELECT count(*) FROM outbox") == [(0,)], "the outbox is empty")
    assert platform.ends(body["attempt_id"]) == []


def test_a_job_that_left_the_plan_is_ended_as_orphaned(platform: FakePlatform, host: AgentHost) -> None:
    body = attempt_body("sleep 600")
    platform.plan_put("attempt", body)
    host.start()
    running(platform, body)
    host.kill()
    platform.plan_remove(body["attempt_id"])
    host.start()
    assert ended(platform, body)["reason"] == "orphaned"
    eventually(lambda: platform.last_sync().attempts == (), "it is forgotten")
    eventually(lambda: not list((host.state / "jobs").iterdir()), "nothing of it is left")


def test_a_job_nobody_knows_is_ended_and_reported(platform: FakePlatform, host: AgentHost) -> None:
    body = attempt_body("sleep 600")
    platform.plan_put("attempt", body)
    host.start()
    running(platform, body)
    host.kill()
    host.sql("DELETE FROM attempt")
    platform.plan_remove(body["attempt_id"])
    assert host.job_running(body)
    host.start()
    orphans = eventually(lambda: platform.events_of("orphan"), "the orphan is reported")
    assert orphans == [{"name": f"gpunex-job-{body['job_id']}-1"}]
    eventually(lambda: not host.job_running(body), "it has ended")


def test_a_wanted_job_of_a_lost_record_is_adopted_not_started_again(platform: FakePlatform, host: AgentHost) -> None:
    body = attempt_body("echo once; sleep 600")
    platform.plan_put("attempt", body)
    host.start()
    eventually(lambda: platform.log(body["attempt_id"]) == b"once\n", "its output")
    host.kill()
    host.sql("DELETE FROM attempt")
    host.start()
    eventually(lambda: host.journal().count('"event": "running"') == 2, "it is adopted")
    platform.attempt_stop(body["attempt_id"], "cancelled")
    assert ended(platform, body)["reason"] == "cancelled"
    assert platform.log(body["attempt_id"]) == b"once\n"


def test_a_killed_job_is_nobodys_fault_yet(platform: FakePlatform, host: AgentHost) -> None:
    body = attempt_body("kill -9 $$")
    platform.plan_put("attempt", body)
    host.start()
    report = ended(platform, body)
    assert (report["exit_code"], report["reason"]) == (137, "unknown")


def test_a_dead_supervisor_takes_its_job_along(platform: FakePlatform, host: AgentHost) -> None:
    body = attempt_body("echo $$; exec sleep 600")
    platform.plan_put("attempt", body)
    host.start()
    job = int(eventually(lambda: platform.log(body["attempt_id"]).strip(), "its number"))
    folder = host.state / "jobs" / f"gpunex-job-{body['job_id']}-1"
    os.kill(json.loads((folder / "started.json").read_text())["pid"], signal.SIGKILL)
    report = ended(platform, body)
    assert (report["exit_code"], report["reason"]) == (None, "unknown")
    eventually(lambda: not Path(f"/proc/{job}").exists(), "the job is gone")
    workspace = json.loads((folder / "started.json").read_text())["workspace"]
    platform.plan_remove(body["attempt_id"])
    eventually(lambda: not folder.exists() and not Path(workspace).exists(), "nothing of it is left")


def test_a_reused_process_number_is_never_signalled(platform: FakePlatform, host: AgentHost) -> None:
    """The supervisor's number now belongs to a stranger, and the folder says that it was ours."""
    body = attempt_body("sleep 600")
    platform.plan_put("attempt", body)
    host.start()
    running(platform, body)
    host.kill()
    started = host.state / "jobs" / f"gpunex-job-{body['job_id']}-1" / "started.json"
    ours = json.loads(started.read_text())
    os.kill(ours["pid"], signal.SIGKILL)
    eventually(lambda: not host.job_running(body), "the supervisor is gone")
    started.write_text(json.dumps({**ours, "pid": os.getpid()}))
    platform.attempt_stop(body["attempt_id"], "cancelled")
    host.start()
    # SIGTERM or SIGUSR1 would have ended this very process.
    assert ended(platform, body)["reason"] == "unknown"


def test_what_a_job_leaves_behind_ends_with_it(platform: FakePlatform, host: AgentHost) -> None:
    body = attempt_body("setsid sleep 600 & echo $!")
    platform.plan_put("attempt", body)
    host.start()
    ended(platform, body)
    left = int(platform.log(body["attempt_id"]))
    eventually(lambda: not Path(f"/proc/{left}").exists(), "the daemonised child is gone")


def test_a_host_that_restarted_says_so(platform: FakePlatform, host: AgentHost) -> None:
    """The job's folder and record name another boot."""
    body = attempt_body("sleep 600")
    platform.plan_put("attempt", body)
    host.start()
    running(platform, body)
    host.kill()
    started = host.state / "jobs" / f"gpunex-job-{body['job_id']}-1" / "started.json"
    ours = json.loads(started.read_text())
    os.kill(ours["pid"], signal.SIGKILL)
    started.write_text(json.dumps({**ours, "boot_id": str(uuid4())}))
    host.sql("UPDATE attempt SET boot_id = 'before'")
    host.start()
    assert ended(platform, body)["reason"] == "host_restart"


def test_stop_jobs_ends_what_a_stopped_agent_left(platform: FakePlatform, host: AgentHost) -> None:
    body = attempt_body("sleep 600")
    platform.plan_put("attempt", body)
    host.start()
    running(platform, body)
    host.terminate()
    assert host.job_running(body)
    host.clean_up()
    eventually(lambda: not host.job_running(body), "the job has ended")
    host.start()
    assert ended(platform, body)["reason"] == "host_restart"

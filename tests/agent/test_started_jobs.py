"""A plan item that says `started` brings no secrets any more: its job is found or has ended, and is never begun again."""

from pathlib import Path

from tests.agent.host import AgentHost, attempt_body, ended
from tests.agent.platform import FakePlatform
from tests.agent.waiting import eventually


def test_a_job_that_had_started_is_not_begun_again_without_its_secrets(
    platform: FakePlatform, host: AgentHost, tmp_path: Path
) -> None:
    """The state folder and the job were lost: the plan says that it ran, and brings no secrets any more."""
    mark = tmp_path / "began"
    body = attempt_body(f"touch {mark}", started=True)
    platform.plan_put("attempt", body)
    host.start()
    report = ended(platform, body)
    assert (report["exit_code"], report["reason"], report["elapsed_s"]) == (None, "unknown", None)
    assert not mark.exists()


def test_a_job_that_had_started_and_whose_record_was_lost_is_found(platform: FakePlatform, host: AgentHost) -> None:
    body = attempt_body("echo once; sleep 600")
    platform.plan_put("attempt", body)
    host.start()
    eventually(lambda: platform.log(body["attempt_id"]) == b"once\n", "its output")
    host.kill()
    host.sql("DELETE FROM attempt")
    platform.plan_put("attempt", {**body, "started": True})
    host.start()
    eventually(lambda: host.journal().count('"event": "running"') == 2, "it is adopted")
    platform.attempt_stop(body["attempt_id"], "cancelled")
    assert ended(platform, body)["reason"] == "cancelled"
    assert platform.log(body["attempt_id"]) == b"once\n"


def test_an_agent_that_restarts_before_the_start_gets_the_secrets_once_more(
    platform: FakePlatform, host: AgentHost
) -> None:
    """It keeps them in memory alone. The second job waits for the first one's GPU."""
    first, second = attempt_body("sleep 600"), attempt_body("echo $TOKEN", environment={"TOKEN": "s3cret-value"})
    platform.plan_put("attempt", first)
    host.start()
    eventually(lambda: platform.state(first["attempt_id"]) == "running", "the first runs", 60)
    platform.plan_put("attempt", second)
    eventually(lambda: platform.state(second["attempt_id"]) == "pulling", "the second waits", 60)
    host.kill()
    kept = [path for path in host.state.rglob("*") if path.is_file() and b"s3cret-value" in path.read_bytes()]
    assert kept == []
    host.start()
    platform.attempt_stop(first["attempt_id"], "cancelled")
    assert ended(platform, second, timeout_s=60)["reason"] == "completed"
    assert platform.log(second["attempt_id"]) == b"s3cret-value\n"

"""A plan item that says `started`: its job is found or has ended, and is never begun again, as its secrets came once."""

from pathlib import Path

from tests.agent.host import AgentHost, attempt_body, ended
from tests.agent.platform import FakePlatform
from tests.agent.waiting import eventually


def test_a_job_that_had_started_is_not_begun_again_without_its_secrets(
    platform: FakePlatform, host: AgentHost, tmp_path: Path
) -> None:
    """The state folder and the job were lost: the plan says that it ran."""
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

"""Secrets are collected once, under the boot that the attempt was placed on, and live in memory alone."""

from pathlib import Path
from typing import Any

from agent.clock import boot_id
from agent_protocol.reasons import Owner, reason_get
from tests.agent.host import AgentHost, attempt_body, ended, running
from tests.agent.platform import FakePlatform
from tests.agent.waiting import eventually

SECRET = "s3cret-value"


def with_secret(platform: FakePlatform, script: str = "echo $TOKEN", **changes: Any) -> dict[str, Any]:
    body = platform.secrets_put(attempt_body(script, **changes), TOKEN=SECRET)
    platform.plan_put("attempt", body)
    return body


def traces(host: AgentHost) -> list[Path]:
    return [path for path in host.state.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


def waiting_behind_another(platform: FakePlatform, host: AgentHost) -> tuple[dict[str, Any], dict[str, Any]]:
    """(a job that runs, one with a secret that waits for its GPU)."""
    first = attempt_body("sleep 600")
    platform.plan_put("attempt", first)
    host.start()
    running(platform, first)
    second = with_secret(platform)
    eventually(lambda: platform.state(second["attempt_id"]) == "pulling", "the second waits")
    return first, second


def test_a_job_has_its_secrets_and_the_plan_however_often_it_comes_does_not(
    platform: FakePlatform, host: AgentHost
) -> None:
    platform.always_send_plan = True
    body = with_secret(platform, "echo $TOKEN $OPEN; sleep 600", environment={"OPEN": "open"})
    host.start()
    running(platform, body)
    eventually(lambda: platform.log(body["attempt_id"]) == f"{SECRET} open\n".encode(), "its output")
    assert [path.name for path in traces(host)] == ["output"], "what it has said itself"
    host.kill()
    host.start()
    eventually(lambda: host.journal().count('"event": "running"') == 2, "the next agent adopts it")
    platform.attempt_stop(body["attempt_id"], "cancelled")
    assert ended(platform, body)["reason"] == "cancelled"
    assert platform.secrets_asked == [body["attempt_id"]]
    assert SECRET not in host.journal()


def test_an_agent_that_restarts_before_it_needs_them_has_lost_nothing(platform: FakePlatform, host: AgentHost) -> None:
    first, second = waiting_behind_another(platform, host)
    host.kill()
    host.start()
    assert platform.secrets_asked == []
    platform.attempt_stop(first["attempt_id"], "cancelled")
    assert ended(platform, second)["reason"] == "completed"
    assert platform.log(second["attempt_id"]) == f"{SECRET}\n".encode()
    assert platform.secrets_asked == [second["attempt_id"]]


def test_an_answer_that_is_lost_does_not_come_again(platform: FakePlatform, host: AgentHost, tmp_path: Path) -> None:
    """The platform has handed them out, nobody knows to whom: the attempt ends and may be tried again."""
    mark = tmp_path / "began"
    platform.fault("/secrets", count=1)
    body = with_secret(platform, f"touch {mark}")
    host.start()
    report = ended(platform, body)
    assert (report["reason"], report["exit_code"], report["elapsed_s"]) == ("secrets_lost", None, None)
    reason = reason_get(report["reason"])
    assert (reason.owner, reason.retried, reason.scored) == (Owner.UNKNOWN, True, False)
    assert platform.secrets_asked == [body["attempt_id"]] * 2
    assert not mark.exists()


def test_a_platform_that_does_not_answer_is_asked_until_it_does(platform: FakePlatform, host: AgentHost) -> None:
    platform.fault("/secrets", count=2, status=503)
    body = with_secret(platform)
    host.start()
    assert ended(platform, body)["reason"] == "completed"
    assert platform.log(body["attempt_id"]) == f"{SECRET}\n".encode()


def test_a_wait_for_secrets_is_called_off(platform: FakePlatform, host: AgentHost) -> None:
    platform.fault("/secrets", count=10_000, status=503)
    body = with_secret(platform)
    host.start()
    eventually(lambda: "the secrets did not come" in host.journal(), "it asks")
    platform.attempt_stop(body["attempt_id"], "cancelled")
    assert ended(platform, body)["reason"] == "cancelled"


def test_an_agent_that_ends_between_having_them_and_the_start_has_lost_them(
    platform: FakePlatform, host: AgentHost
) -> None:
    """It keeps them in memory alone: the next one finds on the disk that there may be a container, and asks in vain."""
    first, second = waiting_behind_another(platform, host)
    host.kill()
    host.sql("UPDATE attempt SET state = 'starting', created = 1 WHERE attempt_id = ?", second["attempt_id"])
    del platform.sealed[second["attempt_id"]]
    host.start()
    platform.attempt_stop(first["attempt_id"], "cancelled")
    report = ended(platform, second)
    assert (report["reason"], report["exit_code"], report["elapsed_s"]) == ("secrets_lost", None, None)


def test_an_attempt_of_an_earlier_boot_is_refused_and_nothing_is_asked_for(
    platform: FakePlatform, host: AgentHost, tmp_path: Path
) -> None:
    """The machine has restarted between the placement and the agent's first look at the plan."""
    mark = tmp_path / "began"
    secret = with_secret(platform, f"touch {mark}", boot_id="an-earlier-boot")
    plain = attempt_body(f"touch {mark}", boot_id="an-earlier-boot")
    same = attempt_body("echo mine", boot_id=boot_id())
    for body in (plain, same):
        platform.plan_put("attempt", body)
    host.start()
    for body in (secret, plain):
        report = ended(platform, body)
        assert (report["reason"], report["exit_code"], report["elapsed_s"]) == ("host_restart", None, None)
    reason = reason_get("host_restart")
    assert (reason.owner, reason.retried) == (Owner.PROVIDER, True)
    assert ended(platform, same)["reason"] == "completed"
    assert platform.secrets_asked == []
    assert not mark.exists()


def test_a_restart_of_the_machine_before_the_start_is_a_restart(platform: FakePlatform, host: AgentHost) -> None:
    """The agent had taken it up: its own record is of the earlier boot."""
    first, second = waiting_behind_another(platform, host)
    host.kill()
    host.sql("UPDATE attempt SET boot_id = 'an-earlier-boot' WHERE attempt_id = ?", second["attempt_id"])
    host.start()
    assert ended(platform, second)["reason"] == "host_restart"
    assert platform.secrets_asked == []
    assert platform.state(first["attempt_id"]) == "running"


def test_a_platform_that_knows_better_about_the_boot_is_believed(platform: FakePlatform, host: AgentHost) -> None:
    platform.fault("/secrets", count=1, status=409, code="other_boot", fields=None, request_id="r")
    body = with_secret(platform)
    host.start()
    assert ended(platform, body)["reason"] == "host_restart"

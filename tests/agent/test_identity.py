"""A credential changes hands without locking anybody out, whatever reply or process is lost; a wrong clock breaks nothing."""

import hashlib
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from agent.state import StateStore
from tests.agent.host import AgentHost, attempt_body, ended, running
from tests.agent.platform import TOKEN, FakePlatform
from tests.agent.waiting import eventually


def credential(host: AgentHost) -> str:
    return str(host.sql("SELECT credential FROM identity")[0][0])


def test_a_credential_is_changed_when_the_platform_wants_it_and_the_old_one_ends(
    platform: FakePlatform, host: AgentHost
) -> None:
    body = attempt_body("sleep 600")
    platform.plan_put("attempt", body)
    host.start()
    running(platform, body)
    before = credential(host)
    platform.rotate = True
    eventually(lambda: platform.replaced, "the new credential has synced", 60)
    after = credential(host)
    assert after != before
    seen = len(platform.syncs)
    eventually(lambda: len(platform.syncs) > seen + 2, "syncs go on", 60)
    assert platform.state(body["attempt_id"]) == "running"
    assert (before not in host.journal(), after not in host.journal()) == (True, True)
    host.terminate()
    seen = len(platform.syncs)
    host.start()
    eventually(lambda: len(platform.syncs) > seen, "the next process knows it", 60)
    assert len(platform.enrolments) == len(platform.machines) == 1


@pytest.mark.parametrize("status", [None, 500, 429])
def test_a_lost_or_failed_reply_to_the_change_locks_nobody_out(
    platform: FakePlatform, host: AgentHost, status: int | None
) -> None:
    host.start()
    eventually(lambda: platform.syncs, "a sync", 60)
    platform.fault("/credential", count=2, status=status, retry_after_s=0.1)
    platform.rotate = True
    eventually(lambda: platform.replaced, "the new credential has synced", 60)
    # The same secret was announced each time: the enrolment's and one more.
    assert len(platform.credentials) == 2
    seen = len(platform.syncs)
    eventually(lambda: len(platform.syncs) > seen, "syncs go on", 60)


def test_an_agent_killed_between_the_announcement_and_its_answer_goes_on(
    platform: FakePlatform, host: AgentHost
) -> None:
    host.start()
    eventually(lambda: platform.syncs, "a sync", 60)
    platform.fault("/credential", count=1)
    platform.rotate = True
    eventually(lambda: len(platform.credentials) == 2, "the new one is announced", 60)
    host.kill()
    host.start()
    eventually(lambda: platform.replaced, "the new credential has synced", 60)
    assert len(platform.credentials) == 2


def test_a_refused_credential_changes_nothing(platform: FakePlatform, host: AgentHost) -> None:
    host.start()
    eventually(lambda: platform.syncs, "a sync", 60)
    before = credential(host)
    platform.fault("/credential", count=1, status=409, code="credential_foreign")
    platform.rotate = True
    eventually(lambda: platform.faults[-1].count == 0, "it is refused", 60)
    platform.rotate = False
    seen = len(platform.syncs)
    eventually(lambda: len(platform.syncs) > seen + 1, "syncs go on", 60)
    assert credential(host) == before


def test_a_replaced_credential_is_no_revocation(platform: FakePlatform, host: AgentHost) -> None:
    """A state folder from a backup: it goes on asking, says why, and stops no job before its grace."""
    body = attempt_body("sleep 600")
    platform.plan_put("attempt", body)
    host.start()
    running(platform, body)
    with platform.lock:
        platform.replaced = set(platform.credentials)
    eventually(lambda: "credential_replaced" in host.journal(), "it is heard", 60)
    assert host.process is not None
    assert host.process.poll() is None
    assert host.job_running(body)


def renew(host: AgentHost, token: str = TOKEN) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "agent", "re-enrol", "--url", host.url, "--state", str(host.state)]
    options = ["--runtime", "process", "--probe", "simulated", "--simulated-profile", str(host.profile)]
    return subprocess.run(
        [*command, *options],
        cwd=host.folder,
        env={**host.environment, "GPUNEX_TOKEN": token},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_machine_enrols_anew_and_its_job_goes_on(platform: FakePlatform, host: AgentHost) -> None:
    body = attempt_body("sleep 600")
    platform.plan_put("attempt", body)
    host.start()
    running(platform, body)
    busy = renew(host)
    assert (busy.returncode, "another agent is using" in busy.stderr) == (2, True)
    host.terminate()
    (machine,) = platform.machines.values()
    platform.same_machine = machine
    before = credential(host)
    platform.fault("/enrol", count=1)  # the answer is lost, and asked for again
    renewed = renew(host)
    assert (renewed.returncode, machine in renewed.stdout) == (0, True), renewed.stderr
    assert credential(host) != before
    assert len(platform.machines) == 2, "one key each, whatever got lost"
    assert set(platform.machines.values()) == {machine}
    platform.replaced = {hashlib.sha256(before.encode()).hexdigest()}
    seen = len(platform.syncs)
    host.start()
    eventually(lambda: len(platform.syncs) > seen + 1, "syncs under the new credential", 60)
    assert platform.state(body["attempt_id"]) == "running"
    assert host.job_running(body)


def test_a_refused_enrolment_anew_changes_nothing(platform: FakePlatform, host: AgentHost) -> None:
    nothing = renew(host)
    assert (nothing.returncode, "no enrolled machine" in nothing.stderr) == (2, True)
    host.start()
    eventually(lambda: platform.syncs, "a sync", 60)
    host.terminate()
    before = credential(host)
    assert renew(host, "gpxe_expired").returncode == 4
    assert credential(host) == before
    seen = len(platform.syncs)
    host.start()
    eventually(lambda: len(platform.syncs) > seen, "it is still the same machine", 60)


def test_a_state_folder_of_the_version_before_is_brought_forward(tmp_path: Path) -> None:
    store = StateStore(tmp_path / "state")
    store.identity_create(credential="gpxa_1", url="u")
    store.close()
    with sqlite3.connect(tmp_path / "state" / "agent.sqlite3") as connection:
        connection.executescript(
            "ALTER TABLE identity DROP COLUMN next_credential; ALTER TABLE identity DROP COLUMN anew_key;"
            "ALTER TABLE identity DROP COLUMN anew_credential; PRAGMA user_version = 1"
        )
    store = StateStore(tmp_path / "state")
    assert store.credential_next("gpxa_2") == store.credential_next("gpxa_3") == "gpxa_2"
    store.credential_switch()
    store.credential_switch()
    found = store.identity_get()
    assert found is not None
    assert found.credential == "gpxa_2"
    assert store.credential_next("gpxa_4") == "gpxa_4"
    store.close()


@pytest.mark.parametrize("ahead_s", [3600.0, -3600.0])
def test_a_clock_that_is_an_hour_off_warns_once_and_breaks_nothing(
    platform: FakePlatform, host: AgentHost, ahead_s: float
) -> None:
    platform.clock_ahead_s = ahead_s
    body = attempt_body("echo on time")
    platform.plan_put("attempt", body)
    host.start()
    assert ended(platform, body, timeout_s=60)["reason"] == "completed"
    seen = len(platform.syncs)
    eventually(lambda: len(platform.syncs) > seen + 2, "more syncs", 60)
    assert host.journal().count("the clock of this machine is wrong") == 1
    assert platform.last_sync().sent_at is not None


def test_a_clock_a_few_seconds_off_is_nothing_to_speak_of(platform: FakePlatform, host: AgentHost) -> None:
    platform.clock_ahead_s = 20.0
    host.start()
    eventually(lambda: len(platform.syncs) > 2, "syncs", 60)
    assert "clock" not in host.journal()

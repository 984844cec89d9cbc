"""A host becomes one machine, whatever gets lost."""

import os
import stat
import subprocess
import sys

from tests.agent.host import AgentHost
from tests.agent.platform import TOKEN, FakePlatform
from tests.agent.waiting import eventually


def test_a_second_start_is_the_same_machine_and_needs_no_token(platform: FakePlatform, host: AgentHost) -> None:
    host.start()
    eventually(lambda: platform.syncs, "a sync")
    assert host.terminate() == 0
    del host.environment["GPUNEX_TOKEN"]
    seen = len(platform.syncs)
    host.start()
    eventually(lambda: len(platform.syncs) > seen, "a sync of the second process")
    assert len(platform.enrolments) == 1
    assert len(platform.machines) == 1


def test_a_lost_reply_makes_no_second_machine(platform: FakePlatform, host: AgentHost) -> None:
    platform.fault("/enrol", count=1)
    host.start()
    eventually(lambda: platform.syncs, "a sync")
    assert len(platform.enrolments) == 2
    assert len(platform.machines) == 1
    assert platform.enrolments[0].credential == platform.enrolments[1].credential


def test_an_agent_killed_before_the_answer_asks_again_as_the_same_machine(
    platform: FakePlatform, host: AgentHost
) -> None:
    platform.fault("/enrol", count=1)
    host.start()
    eventually(lambda: platform.enrolments, "an enrolment")
    host.kill()
    host.start()
    eventually(lambda: platform.syncs, "a sync")
    assert len(platform.machines) == 1


def test_a_refused_token_ends_the_agent_with_the_platforms_word(platform: FakePlatform, host: AgentHost) -> None:
    host.environment["GPUNEX_TOKEN"] = "gpxe_expired"
    host.start()
    assert host.exit_code() == 4
    assert "token_invalid" in host.journal()
    assert platform.machines == {}


def test_without_a_token_nothing_is_sent(platform: FakePlatform, host: AgentHost) -> None:
    del host.environment["GPUNEX_TOKEN"]
    host.start()
    assert host.exit_code() == 2
    assert "GPUNEX_TOKEN" in host.journal()
    assert platform.enrolments == []


def test_a_token_can_come_from_a_file(platform: FakePlatform, host: AgentHost) -> None:
    (host.folder / "token").write_text(host.environment.pop("GPUNEX_TOKEN") + "\n")
    host.options["--token-file"] = str(host.folder / "token")
    host.start()
    eventually(lambda: platform.syncs, "a sync")
    assert (host.folder / "token").exists(), "a file of somebody else's is not ours to delete"


def test_a_token_handed_over_in_the_state_folder_is_deleted_once_it_is_used(
    platform: FakePlatform, host: AgentHost
) -> None:
    token = host.state / "token"
    host.state.mkdir()
    token.write_text("gpxe_expired\n")
    del host.environment["GPUNEX_TOKEN"]
    host.options["--token-file"] = str(token)
    host.start()
    assert host.exit_code() == 4
    assert token.exists(), "refused is not used"
    for _ in range(2):  # of the second, which an enrolled machine did not need, nothing is left either
        token.write_text(f"{TOKEN}\n")
        host.start()
        eventually(lambda: not token.exists(), "the token is gone")
        host.terminate()
    assert len(platform.machines) == 1


def status(host: AgentHost, *options: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "agent", "status", "--state", str(host.state), *options]
    done = subprocess.run(
        command, cwd=host.folder, env=host.environment, capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stdout + done.stderr


def test_a_status_can_be_asked_for_beside_a_running_agent(platform: FakePlatform, host: AgentHost) -> None:
    assert status(host) == (1, "new: no agent has run here\n")
    assert not host.state.exists()
    platform.fault("/enrol", count=1000, status=503)
    host.start()
    eventually(
        lambda: (host.state / "agent.sqlite3").exists() and "enrolment not answered" in host.journal(), "it asks"
    )
    assert status(host) == (1, "new: this machine is not enrolled\n")
    platform.faults.clear()
    platform.fault("/sync", count=1000, status=503)
    eventually(lambda: platform.machines, "it is enrolled", timeout_s=60)
    eventually(lambda: status(host)[1].startswith("enrolled: "), "nothing but the enrolment was answered")
    platform.faults.clear()
    eventually(lambda: status(host)[1].startswith("online: "), "the platform answers", timeout_s=60)
    assert status(host)[0] == 0
    host.kill()
    code, line = status(host, "--within", "0")
    assert code == 1
    assert line.startswith(f"enrolled: machine {next(iter(platform.machines.values()))}; {platform.url} answered ")


def test_the_credential_is_readable_by_its_owner_only_and_never_logged(platform: FakePlatform, host: AgentHost) -> None:
    host.start()
    eventually(lambda: platform.syncs, "a sync")
    credential = platform.enrolments[0].credential
    assert credential not in host.journal()
    assert platform.enrolments[0].token not in host.journal()
    for name in ("", "agent.sqlite3"):
        assert stat.S_IMODE(os.stat(host.state / name).st_mode) & 0o077 == 0


def test_a_state_folder_serves_one_agent(platform: FakePlatform, host: AgentHost) -> None:
    host.start()
    eventually(lambda: platform.syncs, "a sync")
    second = AgentHost(platform.url, host.folder)
    second.start()
    assert second.exit_code() == 2
    assert "another agent is using" in host.journal()


def test_a_state_folder_belongs_to_one_platform(platform: FakePlatform, host: AgentHost) -> None:
    host.start()
    eventually(lambda: platform.syncs, "a sync")
    host.terminate()
    host.options["--runtime"] = "docker"
    host.url = "https://other.example"
    host.start()
    assert host.exit_code() == 2
    assert "where this state folder's machine is enrolled" in host.journal()


def test_the_process_runtime_refuses_a_platform_elsewhere(platform: FakePlatform, host: AgentHost) -> None:
    host.url = "https://gpunex.example"
    host.start()
    assert host.exit_code() == 2
    assert "allowed: a platform on this machine" in host.journal()


def test_a_credential_never_travels_in_the_clear(platform: FakePlatform, host: AgentHost) -> None:
    host.options["--runtime"] = "docker"
    host.url = "http://gpunex.example"
    host.start()
    assert host.exit_code() == 2
    assert "allowed: https" in host.journal()


def test_a_platform_on_this_machine_may_move_to_another_address(platform: FakePlatform, host: AgentHost) -> None:
    host.start()
    eventually(lambda: platform.syncs, "a sync")
    host.terminate()
    seen = len(platform.syncs)
    host.url = host.url.replace("127.0.0.1", "localhost")
    host.start()
    eventually(lambda: len(platform.syncs) > seen, "a sync at the other address")
    assert len(platform.machines) == 1

"""A host becomes one machine, whatever gets lost."""

import os
import stat

from tests.agent.host import AgentHost
from tests.agent.platform import FakePlatform
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

"""What the installer looks at before it touches anything: stand-ins answer for the machine, no engine is needed."""

import shutil
import subprocess
from pathlib import Path

import pytest

from agent_protocol.checks import HOST_CHECKS
from agent_protocol.version import version_at_least
from tests.agent.installer import CARD_A, CARD_B, DOCKER, NVIDIA_SMI, SCRIPT, Machine
from tests.architecture import installer as parts


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_parts_written_from_other_files_are_current() -> None:
    assert parts.written(SCRIPT.read_text()) == SCRIPT.read_text(), f"run: {parts.ORDER.removeprefix('written by: ')}"


def test_a_setting_of_a_container_that_the_installer_cannot_pass_on_is_an_error() -> None:
    compose = parts.COMPOSE.read_text().replace("    restart: always\n", "    restart: always\n    privileged: true\n")
    with pytest.raises(ValueError, match="privileged"):
        parts.containers(compose)


@pytest.mark.linter
@pytest.mark.parametrize("shell", ["sh", "bash", "dash"])
def test_shellcheck_finds_nothing(shell: str) -> None:
    done = subprocess.run(["shellcheck", "-s", shell, SCRIPT], capture_output=True, text=True, check=False)
    assert done.stdout + done.stderr == ""


@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_a_dry_run_says_what_it_would_do_and_never_shows_the_token(machine: Machine, shell: str) -> None:
    done = machine.install("--dry-run", "--gpus", CARD_A, shell=shell, GPUNEX_TOKEN="gpxe_secret")
    assert done.returncode == 0, done.stderr
    assert "--name gpunex-agent" in done.stdout and f'"device={CARD_A}"' in done.stdout
    assert "gpxe_secret" not in done.stdout + done.stderr + machine.asked()
    agent = next(line for line in done.stdout.splitlines() if "--name gpunex-agent " in line)
    assert "docker.sock" not in agent and "privileged" not in agent.replace("no-new-privileges", "")
    assert not machine.etc.exists()
    asked = [line.split()[0] for line in machine.asked().splitlines()]
    assert set(asked) <= {"--version", "version", "info", "inspect", "volume"}, "looks only"


@pytest.mark.parametrize("check", [check.id for check in HOST_CHECKS if check.id != "gpu_in_container"])
def test_every_check_of_a_good_machine_passes(machine: Machine, check: str) -> None:
    assert f"ok      {check}: " in machine.install("--dry-run").stdout


def answering(question: str, answer: str) -> str:
    """The stand-in for docker with another answer to one question."""
    return f'case "$*" in\n{question}) {answer}; exit ;;\nesac\n{DOCKER}'


UNAME = "case $1 in -s) echo {} ;; -m) echo {} ;; -r) echo {} ;; *) echo host ;; esac"
FAILURES = [
    ("operating_system", "uname", UNAME.format("Darwin", "x86_64", "6.1"), "Darwin"),
    ("architecture", "uname", UNAME.format("Linux", "aarch64", "6.1"), "aarch64"),
    ("not_wsl", "uname", UNAME.format("Linux", "x86_64", "5.15.153.1-microsoft-standard-WSL2"), "microsoft"),
    ("not_wsl", "uname", UNAME.format("Linux", "x86_64", "4.4.0-19041-Microsoft"), "Microsoft"),
    ("privileges", "id", "echo 1000", "no sudo"),
    ("engine", "docker", None, "no docker command"),
    ("engine", "docker", 'echo "podman version 4.3.1"', "podman"),
    ("engine", "docker", answering("*'json .Server'*", 'echo \'{"Components":[{"Name":"Podman Engine"}]}\''), "podman"),
    ("engine", "docker", answering("*OperatingSystem*", "echo 'Docker Desktop [name=seccomp]'"), "docker-desktop"),
    (
        "engine",
        "docker",
        answering("*OperatingSystem*", "echo 'Debian [name=seccomp name=rootless]'"),
        "docker-rootless",
    ),
    ("engine_running", "docker", answering("*Server.Version*", "exit 1"), "no answer"),
    ("engine_version", "docker", answering("*Server.Version*", "echo 23.0.6"), "23.0.6"),
    ("engine_version", "docker", answering("*Server.Version*", "echo 20.10.24+dfsg1"), "20.10.24"),
    ("disk_free", "df", "echo Filesystem; echo '/dev/vda 100000000 90000000 20000000 90% /'", "20 GB"),
    ("disk_free", "df", "exit 1", "nothing"),
    (
        "packet_filter",
        "nft",
        "echo 'Error: Could not process rule: Operation not supported' >&2; exit 1",
        "not supported",
    ),
    ("driver_version", "nvidia-smi", None, "does not answer"),
    ("driver_version", "nvidia-smi", "echo 'Driver/library version mismatch'; exit 18", "does not answer"),
    ("driver_version", "nvidia-smi", NVIDIA_SMI.replace("550.54.15", "535.183.01"), "535.183.01"),
    ("gpu_count", "nvidia-smi", 'case "$*" in *driver*) echo 550.54.15 ;; *) echo No devices were found ;; esac', "0"),
    ("toolkit_version", "nvidia-ctk", None, "no nvidia-ctk"),
    ("toolkit_version", "nvidia-ctk", "echo NVIDIA Container Toolkit CLI version 1.17.8", "1.17.8"),
]


@pytest.mark.parametrize(("check", "tool", "script", "found"), FAILURES)
def test_a_machine_that_is_not_fit_is_told_what_why_and_how(
    machine: Machine, check: str, tool: str, script: str | None, found: str
) -> None:
    machine.tool(tool, script)
    done = machine.install(GPUNEX_TOKEN="gpxe_secret")
    rule = next(each for each in HOST_CHECKS if each.id == check)
    assert done.returncode == 1
    told = done.stderr.split(f"FAILED  {check}\n")[1].splitlines()
    assert told[0].startswith("  found:  ") and found in told[0]
    assert told[1:4] == [f"  needed: {rule.required}", f"  why:    {rule.purpose}", f"  remedy: {rule.remedy}"]
    assert not machine.etc.exists()
    assert "pull" not in machine.asked() and "run" not in machine.asked().split()


def test_all_that_is_wrong_is_told_at_once(machine: Machine) -> None:
    machine.tool("uname", UNAME.format("Linux", "aarch64", "6.1"))
    machine.tool("docker", 'echo "podman version 4.3.1"')
    machine.tool("nvidia-smi", "exit 9")
    machine.tool("nvidia-ctk", None)
    told = machine.install().stderr
    failed = [line.split()[1] for line in told.splitlines() if line.startswith("FAILED")]
    assert failed == ["architecture", "engine", "driver_version", "gpu_count", "toolkit_version"]


def test_jobs_without_a_network_need_no_packet_filter(machine: Machine) -> None:
    machine.tool("nft", None)
    nowhere = SCRIPT.read_text().replace(":/usr/sbin:/sbin", "")
    told = machine.install("--dry-run", script=nowhere)
    assert told.returncode == 1 and "FAILED  packet_filter\n  found:  no nft command" in told.stderr
    told = machine.install("--dry-run", "--network", "none", script=nowhere)
    assert (
        told.returncode == 0
        and "--job-network none" in told.stdout
        and "egress.nft" not in told.stdout.split("rm -f")[0]
    )


def test_podman_is_refused_with_the_reason(machine: Machine) -> None:
    machine.tool("docker", 'echo "podman version 4.3.1"')
    assert "drops GPU requests without an error" in machine.install().stderr


def test_the_minimum_of_the_engine_can_be_lowered_for_a_trial(machine: Machine) -> None:
    machine.tool("docker", answering("*Server.Version*", "echo 20.10.24+dfsg1"))
    done = machine.install("--dry-run", GPUNEX_MINIMUM_ENGINE="20.10")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "version", ["24.0.7", "24", "9.9", "27.0~rc1", "v1.18.2", "garbage", "", "1.2-rc.9", "10.0.0.1"]
)
@pytest.mark.parametrize("minimum", ["24.0", "24.0.0", "1.18.2", "1.2.5", "10", "27.0"])
def test_the_script_compares_versions_as_the_platform_does(version: str, minimum: str) -> None:
    function = SCRIPT.read_text().partition("at_least() {")[2].partition("\n}\n")[0]
    asked = f'at_least() {{{function}\n}}\nat_least "$1" "$2"'
    done = subprocess.run(["sh", "-c", asked, "sh", version, minimum], capture_output=True, check=False)
    assert (done.returncode == 0) is version_at_least(version, minimum), done.stderr


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--token", "gpxe_x"], "can be read by every process"),
        (["--token=gpxe_x"], "can be read by every process"),
        (["--gpus"], "--gpus: found nothing"),
        (["--gpus", "a;reboot"], "--gpus: found a;reboot"),
        (["--gpus", "0,1"], "--gpus: found 0,1"),
        (["--gpus", f"{CARD_A},"], "--gpus: found"),
        (["--gpus", "GPU-unknown"], f"{CARD_B}, NVIDIA L4"),
        (["--name", "$(reboot)"], "--name: found"),
        (["--network", "all"], "--network: found all, allowed: none, web, open"),
        (["--surprise"], "unknown option: --surprise"),
    ],
)
def test_bad_options_are_refused_before_anything_happens(machine: Machine, arguments: list[str], told: str) -> None:
    done = machine.install(*arguments, GPUNEX_TOKEN="gpxe_secret")
    assert done.returncode == 1 and told in done.stderr
    assert "pull" not in machine.asked() and not machine.etc.exists()


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"GPUNEX_URL": "http://gpunex.example"}, "https"),
        ({"GPUNEX_URL": "http://127.0.0.1.example"}, "https"),
        ({"GPUNEX_URL": "", "GPUNEX_AGENT_IMAGE": ""}, "template"),
        ({"GPUNEX_AGENT_IMAGE": "ghcr.io/gpunex/agent:latest"}, "by digest"),
        ({"GPUNEX_GUARD_IMAGE": "ghcr.io/gpunex/guard"}, "by digest"),
        ({"GPUNEX_GUARD_IMAGE": "x;reboot@sha256:1"}, "not the name of an image"),
        ({"DOCKER_HOST": "tcp://10.0.0.1:2375"}, "the engine of this machine"),
        ({"GPUNEX_ONLINE_SECONDS": "soon"}, "a number of seconds"),
        ({"GPUNEX_TOKEN": "sk_live_x"}, "begins with gpxe_"),
        ({"GPUNEX_TOKEN": "gpxe_x; reboot"}, "other characters"),
    ],
)
def test_bad_settings_are_refused(machine: Machine, changes: dict[str, str], told: str) -> None:
    machine.tool("docker", answering("run*", "echo GPU 0"))
    done = machine.install(**changes)
    assert done.returncode == 1 and told in done.stderr
    assert not machine.etc.exists()


def test_without_a_terminal_and_without_a_token_nothing_is_started(machine: Machine) -> None:
    machine.tool("docker", answering("run*", "echo GPU 0"))
    done = machine.install()
    assert done.returncode == 1 and "set GPUNEX_TOKEN" in done.stderr
    assert "gpunex-agent --" not in machine.asked() and not machine.etc.exists()


def test_a_download_that_broke_off_runs_nothing(machine: Machine) -> None:
    """Cut after every line, and at every character of the last one."""
    script = SCRIPT.read_text()
    lines = script.splitlines(keepends=True)
    cuts = ["".join(lines[:count]) for count in range(1, len(lines), 7)]
    cuts += ["".join(lines[:-1]) + lines[-1][:count] for count in range(len(lines[-1]) - 1)]
    machine.tool("uname", 'echo "$0" >>"$(dirname "$0")/ran"')
    for cut in cuts:
        for shell in ("bash", "dash"):
            machine.install(shell=shell, script=cut)
            assert machine.asked() == "" and not (machine.bin / "ran").exists(), cut[-200:]
    machine.install(script=script)
    assert (machine.bin / "ran").exists(), "the whole script runs"


def test_help_says_what_there_is_and_touches_nothing(machine: Machine) -> None:
    done = machine.install("--help")
    assert done.returncode == 0
    for option in (
        "--gpus",
        "--name",
        "--network",
        "--dry-run",
        "--update",
        "--uninstall",
        "--yes",
        "GPUNEX_TOKEN",
        str(machine.etc),
    ):
        assert option in done.stdout
    assert machine.asked() == ""


@pytest.mark.parametrize("arguments", [["--update"], ["--uninstall"]])
def test_what_is_not_installed_or_not_confirmed_is_left_alone(machine: Machine, arguments: list[str]) -> None:
    done = machine.install(*arguments)
    assert done.returncode == 1
    assert "run" not in machine.asked().split() and "rm" not in machine.asked().split()


def test_a_user_who_is_not_root_goes_through_sudo(machine: Machine) -> None:
    machine.tool("id", "echo 1000")
    machine.tool("sudo", 'echo "$*" >>"$(dirname "$0")/sudo.asked"; exec "$@"')
    done = machine.install("--dry-run")
    assert done.returncode == 0, done.stderr
    assert "docker version" in (machine.bin / "sudo.asked").read_text()


def test_sh_is_enough() -> None:
    assert shutil.which("sh")
    assert subprocess.run(["sh", "-n", str(SCRIPT)], check=False).returncode == 0

"""Command line of the agent."""

import argparse
import json
import shlex
import signal
import sys
import threading
from dataclasses import asdict
from pathlib import Path

from agent.cleanup import jobs_stop
from agent.config import DEVICES, GUARD_ADDRESS, NETWORKS, PROBES, RUNTIMES, STOP_GRACE_S, Settings
from agent.egress import egress_unguarded
from agent.errors import AgentError, ExitCode
from agent.hostcheck import host_check
from agent.journal import journal_start
from agent.service import machine_renew, serve
from agent.status import WITHIN_S, status_read
from agent_protocol.checks import CheckStatus
from agent_protocol.version import AGENT_VERSION, PROTOCOL

DEFAULT_STATE = Path("/var/lib/gpunex-agent")


def main(arguments: list[str]) -> int:
    """The exit code (agent.errors.ExitCode)."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.command(options))
    except AgentError as error:
        print(f"gpunex-agent: {error}", file=sys.stderr)
        return int(error.exit_code)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gpunex-agent", description="Offers this machine's GPUs on GPUnex.")
    commands = parser.add_subparsers(required=True)
    run = commands.add_parser("run", help="enrol if needed, then serve until stopped; jobs go on running")
    run.add_argument("--url", required=True, help="address of the platform")
    run.add_argument("--name", help="how this machine is called (default: its host name)")
    run.add_argument("--gpus", default="all", help="all, or UUIDs separated by commas: what is offered")
    run.add_argument("--token-file", type=Path, help="file with the enrolment token (else GPUNEX_TOKEN, or a prompt)")
    run.add_argument("--sync-interval", type=float, help="seconds between syncs (default: what the platform says)")
    run.add_argument("--job-network", choices=NETWORKS, default="none", help="network of jobs")
    run.add_argument(
        "--devices", choices=DEVICES, default="engine", help="none: for simulated GPUs, no engine has them"
    )
    run.add_argument("--egress-image", help="the agent's image: looks before each job whether the network rules hold")
    run.add_argument("--allow-registry", action="append", default=[], help="one more registry for images")
    run.add_argument("--benchmark-python", default=sys.executable, help="runtime process: a Python that has torch")
    run.add_argument("--benchmark-options", default="", help="runtime process: options for the suite, in one argument")
    run.add_argument("--log-level", default="INFO", choices=("DEBUG", "INFO", "WARNING", "ERROR"))
    run.set_defaults(command=_run)
    _host_options(run)
    check = commands.add_parser("check", help="look whether this machine has what it needs")
    check.add_argument("--json", action="store_true", help="print the results as JSON")
    check.set_defaults(command=_check)
    _host_options(check)
    stop = commands.add_parser("stop-jobs", help="end the jobs that a stopped agent left running")
    stop.set_defaults(command=_stop_jobs)
    _host_options(stop)
    renew = commands.add_parser(
        "re-enrol", help="enrol this machine anew with a token from its page; stop the agent first"
    )
    renew.add_argument("--url", required=True, help="address of the platform")
    renew.add_argument("--name", help="how this machine is called (default: its host name)")
    renew.add_argument("--token-file", type=Path, help="file with the token (else GPUNEX_TOKEN, or a prompt)")
    renew.set_defaults(command=_re_enrol)
    _host_options(renew)
    status = commands.add_parser("status", help="say whether this machine is enrolled and the platform answers it")
    status.add_argument("--state", type=Path, default=DEFAULT_STATE, help="folder of the agent")
    status.add_argument("--within", type=float, default=WITHIN_S, help="seconds since the last answer that count")
    status.set_defaults(command=_status)
    egress = commands.add_parser("egress-probe", help="inside a job's network: say whether the network rules hold")
    egress.set_defaults(command=_egress_probe)
    version = commands.add_parser("version", help="print the version")
    version.set_defaults(command=_version)
    return parser


def _host_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--state", type=Path, default=DEFAULT_STATE, help="folder for what must survive a restart")
    parser.add_argument("--runtime", choices=RUNTIMES, default="docker", help="process: demonstrations only")
    parser.add_argument("--probe", choices=PROBES, default="nvml", help="simulated: GPUs from --simulated-profile")
    parser.add_argument("--simulated-profile", type=Path, help="JSON file with the GPUs to simulate")
    parser.add_argument("--docker-host", help=f"address of the guard (default: {GUARD_ADDRESS})")
    parser.add_argument("--stop-grace", type=float, default=STOP_GRACE_S, help="seconds between TERM and KILL")


def _settings(options: argparse.Namespace) -> Settings:
    given = vars(options)
    gpus = given.get("gpus", "all")
    return Settings(
        # Commands that never call the platform need no address; the loopback satisfies every runtime's check.
        url=given.get("url") or "http://127.0.0.1",
        state=options.state.absolute(),
        runtime=options.runtime,
        probe=options.probe,
        simulated_profile=options.simulated_profile,
        name=given.get("name"),
        gpus=None if gpus == "all" else frozenset(uuid.strip() for uuid in gpus.split(",") if uuid.strip()),
        token_file=given.get("token_file"),
        sync_interval_s=given.get("sync_interval"),
        stop_grace_s=options.stop_grace,
        docker_host=options.docker_host,
        job_network=given.get("job_network", "none"),
        egress_image=given.get("egress_image"),
        registries=frozenset(given.get("allow_registry", ())),
        devices=given.get("devices", "engine"),
        log_level=given.get("log_level", "INFO"),
        benchmark_python=given.get("benchmark_python", sys.executable),
        benchmark_options=tuple(shlex.split(given.get("benchmark_options", ""))),
    )


def _run(options: argparse.Namespace) -> int:
    settings = _settings(options)
    settings.check()
    journal_start(settings.log_level)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return serve(settings, stop)


def _check(options: argparse.Namespace) -> int:
    results = host_check(_settings(options))
    if options.json:
        print(json.dumps([asdict(result) for result in results], indent=2))
    else:
        for result in results:
            print(
                f"{result.status:8}{result.id}: {result.actual or 'could not be found out'} (needed: {result.required})"
            )
            if result.status is CheckStatus.FAILED:
                print(f"        {result.purpose}\n        {result.remedy}")
    failed = any(result.status is CheckStatus.FAILED for result in results)
    return ExitCode.CHECK_FAILED if failed else ExitCode.CLEAN


def _stop_jobs(options: argparse.Namespace) -> int:
    print(f"{jobs_stop(_settings(options))} jobs ended")
    return ExitCode.CLEAN


def _re_enrol(options: argparse.Namespace) -> int:
    settings = _settings(options)
    settings.check()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    machine_id = machine_renew(settings, stop)
    print(f"machine {machine_id} has enrolled anew; start the agent" if machine_id else "stopped before the answer")
    return ExitCode.CLEAN


def _status(options: argparse.Namespace) -> int:
    online, line = status_read(options.state.absolute(), options.within)
    print(line)
    return ExitCode.CLEAN if online else ExitCode.CHECK_FAILED


def _egress_probe(_options: argparse.Namespace) -> int:
    unguarded = egress_unguarded()
    print(unguarded or "guarded")
    return ExitCode.CHECK_FAILED if unguarded else ExitCode.CLEAN


def _version(_options: argparse.Namespace) -> int:
    print(f"gpunex-agent {AGENT_VERSION} (protocol {PROTOCOL})")
    return ExitCode.CLEAN

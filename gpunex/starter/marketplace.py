"""The processes of one marketplace, in the order in which they are started, and how they are stopped."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import httpx

from gpunex.embedded import free_port
from gpunex.starter.folder import ROOT, STOPPED, DataFolder, StartError
from gpunex.starter.services import Services, database_must_be_ours
from gpunex.starter.supervisor import Child, Supervisor, children_of, end_orphans, reap_orphans

READY_SECONDS = 180.0
STOP_SECONDS = 4.0
JOBS_SECONDS = 20.0
ORPHAN_SECONDS = 1.0
"""Limits, for a machine that is busy: a stop takes about five seconds, and leaves nothing running rather than be quick."""
ADA_HOSTS = ("ada-1", "ada-2")
DEMO_HOSTS = ROOT / "bin" / "demo-hosts"
LOGINS = "logins.json"
RUN = "run.json"
"""Where things are while this start runs; bin/tour reads it."""


class Marketplace:
    def __init__(self, folder: DataFolder, *, port: int, demo: bool, docker: bool, say: Callable[[str], None]) -> None:
        self.folder, self.port, self.demo, self.docker, self.say = folder, port, demo, docker, say
        self.url = f"http://127.0.0.1:{port}"
        self.bell_url = f"http://127.0.0.1:{free_port()}"
        self.runtime = "docker" if docker else "process"
        self.logs = folder.sub("logs")
        self.services = Services(folder, demo=demo)
        self.supervisor = Supervisor(self.logs, say)
        # Apart from the others, because ending the jobs goes through it when they have stopped.
        self.guard = Supervisor(self.logs, say)
        self.guard_socket = folder.path / "guard.sock"
        self.environment: dict[str, str] = {}

    def start(self) -> None:
        """Raises StartError or EmbeddedError."""
        self.services.start(self.say)
        self.environment = self._environment()
        genesis = self.services.environment.get("SOLANA_GENESIS_HASH", "")
        database_must_be_ours(self.services.owner_url, demo=self.demo, genesis_hash=genesis)
        self._start_doorbell()
        if self.demo:
            # It loads while the database is prepared; nobody is told its address before both are done.
            self._start_web()
            self._prepare()
        else:
            self._prepare()  # collects the static files that the server looks for when it loads
            self._start_web()
        self._start_worker()
        self._wait_until_ready()
        addresses = {"url": self.url, "bell_url": self.bell_url, "pid": os.getpid()}
        self.folder.write(RUN, addresses | {"rpc_url": self.environment.get("SOLANA_RPC_URL", "")})
        if self.docker:
            self._start_guard()
        if self.demo:
            self._start_hosts()

    def _environment(self) -> dict[str, str]:
        ours = {
            "SECRET_KEY": self.folder.secret("secret-key"),
            "BELL_SECRET": self.folder.secret("bell-secret"),
            "DATA_DIR": str(self.folder.path),
            "DEMO": "1" if self.demo else "0",
            "ORIGIN": self.url,
            "ALLOWED_HOSTS": "127.0.0.1,localhost",
            "BELL_URL": self.bell_url,
            "PYTHONUNBUFFERED": "1",
        }
        # Only the migration knows the owner's password, and only the worker where the hot wallet's key lies.
        kept_back = ("DATABASE_OWNER_URL", "SOLANA_HOT_WALLET_KEY_FILE")
        inherited = {name: value for name, value in os.environ.items() if name not in kept_back}
        return inherited | self.services.environment | ours

    def _prepare(self) -> None:
        """Migrations by the owner, then the demo's data by services; see manage.py prepare."""
        self.folder.sub("mail")
        log = self.logs / "prepare.log"
        environment = self.environment | {"DATABASE_OWNER_URL": self.services.owner_url, "PROCESS": "manage"}
        with log.open("wb") as output:
            done = subprocess.run(
                [sys.executable, "manage.py", "prepare"],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                check=False,
            )
        if done.returncode != 0:
            raise StartError(f"The database could not be prepared; the end of {log}:\n{_tail(log)}")
        self.say("Database: migrated" + (", demo data in place" if self.demo else ""))

    def _child(
        self,
        name: str,
        *command: str,
        process: str = "worker",
        once: bool = False,
        more: Mapping[str, str] | None = None,
    ) -> None:
        environment = self.environment | {"PROCESS": process} | dict(more or {})
        self.supervisor.start(Child(name, command, environment, ROOT, once=once))

    def _start_guard(self) -> None:
        """The agents' only way to the engine that ``docker`` speaks to, as on a provider's host."""
        self.guard_socket.unlink(missing_ok=True)
        command = [sys.executable, "-m", "agent.guard", "--socket", str(self.guard_socket)]
        address = os.environ.get("DOCKER_HOST", "")
        if address:
            if not address.startswith("unix://"):
                raise StartError(f"--docker: found DOCKER_HOST={address}, allowed: an engine's socket (unix://…)")
            command += ["--engine", address.removeprefix("unix://")]
        self.guard.start(Child("guard", command, {"PATH": os.environ.get("PATH", "")}, ROOT))
        deadline = time.monotonic() + READY_SECONDS
        while not self.guard_socket.exists():
            if not self.guard.children[0].process.running() or time.monotonic() > deadline:
                raise StartError(f"guard did not start; see {self.logs / 'guard.log'}")
            time.sleep(0.05)

    def _engine_options(self) -> list[str]:
        return ["--docker-host", f"unix://{self.guard_socket}"] if self.docker else []

    def _host(self, name: str, *command: str, once: bool = False) -> None:
        """An agent or a customer's wallet: somebody else's program, it gets no secret of the platform."""
        secret = ("DATABASE", "REDIS", "SECRET", "SOLANA")
        kept = {key: value for key, value in self.environment.items() if not any(word in key for word in secret)}
        self.supervisor.start(Child(name, command, kept, ROOT, once=once))

    def _program(self, name: str) -> str:
        return str(Path(sys.executable).with_name(name))

    def _start_web(self) -> None:
        options = ["--interface", "wsgi", "--host", "127.0.0.1", "--port", str(self.port), "--no-ws"]
        options += ["--blocking-threads", "4", "--backpressure", "64", "--respawn-failed-workers"]
        self._child("web", self._program("granian"), *options, "gpunex.wsgi:application", process="web")

    def _start_doorbell(self) -> None:
        port = self.bell_url.rpartition(":")[2]
        options = ["--interface", "asgi", "--host", "127.0.0.1", "--port", port, "--no-ws", "--factory"]
        options += ["--respawn-failed-workers"]
        self._child("doorbell", self._program("granian"), *options, "gpunex.doorbell:application", process="doorbell")

    def _start_worker(self) -> None:
        celery = [self._program("celery"), "--app", "gpunex.celery"]
        options = ["--queues", "mail,default,money,bench,sweep", "--concurrency", "2"]
        options += ["--without-gossip", "--without-mingle", "-Ofair"]
        self._child("worker", *celery, "worker", *options, more=self.services.signing)
        schedule = str(self.folder.sub("celery") / "beat-schedule")
        self._child("beat", *celery, "beat", "--schedule", schedule, "--pidfile=")

    def _wait_until_ready(self) -> None:
        waiting = {"web": f"{self.url}/readyz", "doorbell": f"{self.bell_url}/healthz"}
        deadline = time.monotonic() + READY_SECONDS
        while waiting:
            for name, url in list(waiting.items()):
                if _answers(url):
                    del waiting[name]
            self.watch()
            if time.monotonic() > deadline:
                name = next(iter(waiting))
                log = self.logs / f"{name}.log"
                raise StartError(f"{name} was not ready within {READY_SECONDS:.0f} s; the end of {log}:\n{_tail(log)}")
            time.sleep(0.05)

    def _start_hosts(self) -> None:
        hosts = self.folder.sub("hosts")
        for name in ADA_HOSTS:
            host = hosts / name
            options = ["--url", self.url, "--name", name, "--state", str(host / "state"), "--runtime", self.runtime]
            options += ["--probe", "simulated", "--simulated-profile", str(host / "profile.json"), "--devices", "none"]
            options += ["--token-file", str(host / "token"), *self._engine_options()]
            self._host(f"host-{name}", sys.executable, "-m", "agent", "run", *options)
        others = [sys.executable, str(DEMO_HOSTS), "--url", self.url, str(hosts / "others")]
        self._host("hosts-others", *others)
        self._child("demo-follow", sys.executable, "manage.py", "demo", "--follow", once=True)
        self._host("demo-customers", sys.executable, "-m", "tour.customers", "--data", str(self.folder.path))

    def watch(self) -> None:
        self.services.watch(self.say)
        self.supervisor.watch()
        self.guard.watch()
        reap_orphans(self._processes())

    def _processes(self) -> set[int]:
        return self.services.processes() | self.supervisor.processes() | self.guard.processes()

    def welcome(self, seconds: float) -> str:
        lines = ["", f"GPUnex is ready at {self.url} (after {seconds:.1f} s)", ""]
        for name, login in self.folder.read(LOGINS).items():
            lines.append(f"  {name:<6} {login['role']:<28} {login['email']:<24} {login['password']}")
        lines += ["", f"Data, logs and mails: {self.folder.path}", "Stop with Ctrl-C."]
        return "\n".join(lines)

    def stop(self) -> None:
        (self.folder.path / RUN).unlink(missing_ok=True)
        if (self.folder.path / "hosts").exists():
            self.folder.write(STOPPED, {"pid": os.getpid()})
        self.supervisor.stop(seconds=STOP_SECONDS)
        self._stop_jobs()
        self.guard.stop(seconds=ORPHAN_SECONDS)
        end_orphans(self.services.processes(), seconds=ORPHAN_SECONDS)
        self.services.stop()
        left = children_of(os.getpid())
        if left:
            self.say(f"still running: {left}")

    def _stop_jobs(self) -> None:
        """Jobs outlive their agent on purpose; with the demo they end, and the next start says that we stopped them."""
        hosts = self.folder.path / "hosts"
        adas = [sys.executable, "-m", "agent", "stop-jobs", "--runtime", self.runtime, "--stop-grace", "1"]
        commands = [
            [*adas, *self._engine_options(), "--state", str(hosts / name / "state")]
            for name in ADA_HOSTS
            if _has_jobs(hosts / name) or (self.docker and (hosts / name / "state").exists())
        ]
        if any(map(_has_jobs, (hosts / "others").glob("*"))):
            commands.append([sys.executable, str(DEMO_HOSTS), "--stop-jobs", str(hosts / "others")])
        log = self.logs / "stop-jobs.log"
        with log.open("wb") as output:
            stopping = [
                subprocess.Popen(
                    command,
                    cwd=ROOT,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
                for command in commands
            ]
        deadline = time.monotonic() + JOBS_SECONDS
        for process in stopping:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _has_jobs(host: Path) -> bool:
    return any((host / "state" / "jobs").glob("*"))


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def _tail(log: Path, lines: int = 15) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])

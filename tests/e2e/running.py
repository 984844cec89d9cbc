"""The whole marketplace as bin/start runs it: started, looked into, its processes found, its clock moved."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gpunex.embedded import APP_ROLE, die_with_parent
from gpunex.starter.services import DATABASE
from tests.agent.waiting import eventually
from tests.services import ROOT

OURS = ("DATABASE_URL", "DATABASE_OWNER_URL", "REDIS_URL", "SECRET_KEY", "DEMO", "DATA_DIR", "GPUNEX_TEST_SERVICES")
READY_SECONDS = 300.0
"""A busy machine takes its time; how fast a start is, is for the benchmarks to say."""


def plain_environment(**more: str) -> dict[str, str]:
    """Without what the test run has set for its own services."""
    return {name: value for name, value in os.environ.items() if name not in OURS} | more


@contextmanager
def data_folder() -> Iterator[Path]:
    """A data folder, not made yet. PostgreSQL's unprivileged user must get there; pytest's own folders are closed to it."""
    found = Path(tempfile.mkdtemp(prefix="gpunex-e2e-"))
    found.chmod(0o711)
    try:
        yield found / "data"
    finally:
        # Jobs outlive whoever ran them; those of a test that failed half-way end here.
        for line in left_running(found / "data"):
            with suppress(ProcessLookupError):
                os.kill(int(line.partition(":")[0]), signal.SIGKILL)
        shutil.rmtree(found, ignore_errors=True)


class Started:
    """One run of the starter on ``folder``."""

    def __init__(self, folder: Path, port: int, *options: str, **environment: str) -> None:
        self.folder, self.port = folder, port
        self.log = folder.parent / "start.log"
        self.output = self.log.open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gpunex.starter", "--port", str(port), "--data", str(folder), *options],
            cwd=ROOT,
            env=plain_environment(**environment),
            stdout=self.output,
            stderr=self.output,
            start_new_session=True,
            # Nor does it outlive a test run that is killed.
            preexec_fn=die_with_parent(signal.SIGTERM),
        )

    @property
    def said(self) -> str:
        return self.log.read_text()

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not self._ready():
            assert self.process.poll() is None, self.said
            assert time.monotonic() < deadline, self.said
            time.sleep(0.1)

    def _ready(self) -> bool:
        try:
            run = json.loads((self.folder / "run.json").read_text())
        except (OSError, ValueError):
            return False
        return run["pid"] == self.process.pid and "is ready at" in self.said

    def stop(self, number: int = signal.SIGTERM) -> float:
        """Returns how long it took."""
        started = time.monotonic()
        self.process.send_signal(number)
        self.process.wait(120)
        self.output.close()
        return time.monotonic() - started

    # Its processes

    def child(self, *words: str) -> int:
        """The one child of the starter whose command line has all the words; waits for it, as it may be starting again."""

        def found() -> list[int]:
            return [pid for pid in children(self.process.pid) if all(word in command(pid) for word in words)]

        (pid,) = eventually(found, f"a process {words} runs", 120, every_s=0.1)
        return pid

    # What it holds

    def journals(self, lines: int = 20) -> str:
        """The ends of its logs, for whoever reads a failure."""
        tails = {
            log.name: log.read_text(errors="replace").splitlines()[-lines:] for log in self.folder.glob("logs/*.log")
        }
        return "\n".join([self.said, *(f"== {name}\n" + "\n".join(tail) for name, tail in sorted(tails.items()))])

    @property
    def database(self) -> dict[str, str]:
        """Where its data lies, as entries of a Django database."""
        port = self.said.rpartition("PostgreSQL: port ")[2].split()[0]
        password = (self.folder / "postgres" / f"{APP_ROLE}.password").read_text()
        return {"HOST": "127.0.0.1", "PORT": port, "USER": APP_ROLE, "PASSWORD": password, "NAME": DATABASE}

    @property
    def valkey_url(self) -> str:
        port = self.said.rpartition("Valkey: port ")[2].split()[0]
        password = (self.folder / "valkey" / "valkey.password").read_text()
        return f"redis://:{password}@127.0.0.1:{port}/0"


def children(parent: int) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def left_running(folder: Path) -> list[str]:
    """Command lines of processes that have to do with this folder, by their arguments or their working folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                environment = (entry / "environ").read_bytes().decode(errors="replace")
                here = os.readlink(entry / "cwd")
            except OSError:
                continue
            line = command(int(entry.name))
            if str(folder) in line or f"DATA_DIR={folder}" in environment or here.startswith(str(folder)):
                found.append(f"{entry.name}: {line}")
    return found

"""bin/start as a person runs it: the tour passes, a stop leaves nothing, a second start goes on, faults get one sentence."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpunex.embedded import free_port
from gpunex.starter.folder import LAYOUT
from tests.services import ROOT

OURS = ("DATABASE_URL", "DATABASE_OWNER_URL", "REDIS_URL", "SECRET_KEY", "DEMO", "DATA_DIR", "GPUNEX_TEST_SERVICES")
STOP_SECONDS = 10.0


def plain_environment(**more: str) -> dict[str, str]:
    """Without what the test run has set for its own services."""
    return {name: value for name, value in os.environ.items() if name not in OURS} | more


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    # PostgreSQL's unprivileged user must get here; pytest's own folders are closed to it.
    found = Path(tempfile.mkdtemp(prefix="gpunex-e2e-"))
    found.chmod(0o711)
    yield found / "data"
    shutil.rmtree(found, ignore_errors=True)


class Started:
    """One run of the starter on ``folder``."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        self.log = folder.parent / "start.log"
        self.output = self.log.open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gpunex.starter", "--port", str(port), "--data", str(folder)],
            cwd=ROOT,
            env=plain_environment(),
            stdout=self.output,
            stderr=self.output,
            start_new_session=True,
        )

    def wait_until_ready(self, seconds: float = 90.0) -> None:
        deadline = time.monotonic() + seconds
        while not self._ready():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)

    def _ready(self) -> bool:
        try:
            run = json.loads((self.folder / "run.json").read_text())
        except (OSError, ValueError):
            return False
        return run["pid"] == self.process.pid and "is ready at" in self.log.read_text()

    def stop(self, number: int = signal.SIGTERM) -> float:
        """Returns how long it took."""
        started = time.monotonic()
        self.process.send_signal(number)
        self.process.wait(60)
        self.output.close()
        return time.monotonic() - started


def left_running(folder: Path) -> list[str]:
    """Command lines of processes that have to do with this folder, by their arguments or their working folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                environment = (entry / "environ").read_bytes().decode(errors="replace")
                here = os.readlink(entry / "cwd")
            except OSError:
                continue
            if str(folder) in line or f"DATA_DIR={folder}" in environment or here.startswith(str(folder)):
                found.append(f"{entry.name}: {line}")
    return found


@pytest.mark.xdist_group("start")
def test_the_marketplace_starts_is_toured_stops_without_a_trace_and_goes_on(folder: Path) -> None:
    port = free_port()
    first = Started(folder, port)
    try:
        first.wait_until_ready()
        assert left_running(folder), "the check below would see nothing"
        tour = subprocess.run(
            [sys.executable, "-m", "tour", "--data", str(folder)],
            cwd=ROOT,
            env=plain_environment(),
            capture_output=True,
            text=True,
            timeout=400,
        )
        assert tour.returncode == 0, tour.stdout + tour.stderr
        _a_killed_child_comes_back(folder, first)
    finally:
        took = first.stop()
    assert took < STOP_SECONDS
    assert first.process.returncode == 0
    assert left_running(folder) == []
    logins = (folder / "logins.json").read_text()

    second = Started(folder, port)
    try:
        second.wait_until_ready()
        assert (folder / "logins.json").read_text() == logins
        _modes_are_private(folder)
    finally:
        second.stop(signal.SIGINT)
    assert left_running(folder) == []

    third = Started(folder, port)
    try:
        third.wait_until_ready()
    finally:
        third.stop(signal.SIGKILL)
    deadline = time.monotonic() + STOP_SECONDS
    while running := left_running(folder):
        assert time.monotonic() < deadline, running
        time.sleep(0.1)


def _a_killed_child_comes_back(folder: Path, started: Started) -> None:
    children = Path(f"/proc/{started.process.pid}/task/{started.process.pid}/children").read_text().split()
    doorbell = next(pid for pid in children if b"gpunex.doorbell" in Path(f"/proc/{pid}/cmdline").read_bytes())
    os.kill(int(doorbell), signal.SIGKILL)
    deadline = time.monotonic() + 30
    while "doorbell: starting again" not in started.log.read_text():
        assert time.monotonic() < deadline, started.log.read_text()
        time.sleep(0.1)


def _modes_are_private(folder: Path) -> None:
    assert folder.stat().st_mode & 0o777 == 0o711
    private = [folder / "logins.json", folder / "gpunex.json", *(folder / "secrets").iterdir()]
    assert {path.name: oct(path.stat().st_mode & 0o077) for path in private} == {path.name: "0o0" for path in private}


def refused(folder: Path, *arguments: str, **environment: str) -> str:
    """The one sentence with which a start is refused; nothing is left running and nothing was made in the folder."""
    done = subprocess.run(
        [sys.executable, "-m", "gpunex.starter", "--data", str(folder), *arguments],
        cwd=ROOT,
        env=plain_environment(**environment),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert left_running(folder) == []
    assert "Traceback" not in done.stderr
    return done.stderr.strip()


@pytest.fixture
def empty(tmp_path: Path) -> Path:
    return tmp_path / "data"


def test_a_taken_port_is_named(empty: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = refused(empty, "--port", str(port))
    assert said.startswith(f"bin/start: Port {port} on 127.0.0.1 is taken")
    assert not empty.exists()


def test_a_foreign_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    assert "is not a data folder of GPUnex" in refused(tmp_path, "--port", str(free_port()))
    assert [entry.name for entry in tmp_path.iterdir()] == ["photos"]


@pytest.mark.parametrize(
    ("marker", "sentence"),
    [
        ("{", "is damaged"),
        ("[]", "is damaged"),
        ('{"product": "gpunex"}', "is damaged"),
        (json.dumps({"product": "gpunex", "layout": LAYOUT + 1, "demo": True}), "this version needs"),
        (json.dumps({"product": "gpunex", "layout": LAYOUT, "demo": False}), "start with --no-demo"),
    ],
)
def test_a_broken_or_other_folder_is_refused(empty: Path, marker: str, sentence: str) -> None:
    empty.mkdir()
    (empty / "gpunex.json").write_text(marker)
    assert sentence in refused(empty, "--port", str(free_port()))


def test_a_folder_in_use_is_refused(empty: Path) -> None:
    holder = "import sys; from pathlib import Path; from gpunex.starter.folder import DataFolder\n"
    holder += (
        "folder = DataFolder(Path(sys.argv[1])); folder.open(demo=True); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", holder, str(empty)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        done = subprocess.run(
            [sys.executable, "-m", "gpunex.starter", "--data", str(empty), "--port", str(free_port())],
            cwd=ROOT,
            env=plain_environment(),
            capture_output=True,
            text=True,
        )
        process.communicate("")
    assert done.returncode == 1
    assert f"Another bin/start (process {process.pid}) is running" in done.stderr


def test_a_database_of_something_else_is_refused(empty: Path, committed_db: str) -> None:
    url, owner = os.environ["DATABASE_URL"], os.environ["DATABASE_OWNER_URL"]
    said = refused(empty, "--port", str(free_port()), DATABASE_URL=url, DATABASE_OWNER_URL=owner)
    assert "the database holds" in said


def test_too_old_a_python_gets_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("start", "environment.sh"):
        shutil.copy(ROOT / "bin" / name, tmp_path / "bin" / name)
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("bash", "dirname", "uname", "id", "rm", "cat"):
        (programs / name).symlink_to(shutil.which(name) or name)
    old = programs / "python3"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.9.2" && exit 0\nexit 1\n')
    old.chmod(0o755)
    done = subprocess.run(
        [str(tmp_path / "bin" / "start")], env={"PATH": str(programs)}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert done.stderr == "GPUnex needs Python 3.11 or newer; found Python 3.9.2.\n"

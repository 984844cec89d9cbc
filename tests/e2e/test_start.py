"""bin/start as a person runs it: the tour passes, a stop leaves nothing, a second start goes on, faults get one sentence."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from accounts.models import User
from core import clock
from gpunex.embedded import free_port
from gpunex.models import Installation
from gpunex.starter.folder import LAYOUT
from reliability.models import Incident
from tests.agent.waiting import eventually
from tests.e2e.market import ADAS_L4, ELSEWHERE, GatedJob, Market, seen_from_inside
from tests.e2e.running import Started, data_folder, left_running, plain_environment
from tests.services import ROOT
from tour.visitor import Visitor


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with data_folder() as found:
        yield found


@pytest.mark.xdist_group("start")
def test_the_marketplace_starts_is_toured_stops_without_a_trace_and_goes_on(
    folder: Path, django_db_blocker: Any
) -> None:
    """Jobs end with a stop, by nobody's fault; they outlive a crash, and the next start adopts them."""
    port = free_port()
    first = Started(folder, port)
    try:
        first.wait_until_ready()
        assert left_running(folder), "the check below would see nothing"
        _tour(folder)
        _a_killed_child_comes_back(first)
        with seen_from_inside(first, django_db_blocker):
            incidents = Incident.objects.count()
        stopped = _jobs(Market(first))
    finally:
        first.stop()
    assert first.process.returncode == 0
    assert left_running(folder) == []
    logins = (folder / "logins.json").read_text()

    second = Started(folder, port)
    try:
        second.wait_until_ready()
        assert (folder / "logins.json").read_text() == logins
        _modes_are_private(folder)
        market = Market(second)
        market.ravi_returns()
        for job in stopped:
            assert [each["reason"] for each in market.ended(job.id)["attempts"]] == ["platform_stop"]
        with seen_from_inside(second, django_db_blocker):
            assert Incident.objects.count() == incidents
        going_on = _jobs(market)
    finally:
        second.stop(signal.SIGKILL)
    eventually(lambda: _only_jobs(left_running(folder), going_on), "everything but the jobs ends", 120, every_s=0.2)

    third = Started(folder, port)
    try:
        third.wait_until_ready()
        market = Market(third)
        market.ravi_returns()
        for job in going_on:
            job.open()
        market.succeeded(*going_on)
        _jobs(market)
    finally:
        third.stop(signal.SIGINT)
    assert left_running(folder) == []


def _tour(folder: Path) -> None:
    tour = subprocess.run(
        [sys.executable, "-m", "tour", "--data", str(folder)],
        cwd=ROOT,
        env=plain_environment(),
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert tour.returncode == 0, tour.stdout + tour.stderr


def _jobs(market: Market) -> list[GatedJob]:
    """A job of Ravi's on a host with an agent of its own, and one where several hosts share a process."""
    market.ravi_returns()
    return [market.gated(ADAS_L4), market.gated(ELSEWHERE)]


def _only_jobs(running: list[str], jobs: list[GatedJob]) -> bool:
    """Nothing runs but jobs, and these are among them. (The demo's other customers may have some too.)"""
    assert all(any(job.id in line for line in running) for job in jobs), running
    return all("/jobs/gpunex-job-" in line for line in running)


@pytest.mark.xdist_group("start")
def test_an_empty_marketplace_starts_with_an_operator_alone() -> None:
    with data_folder() as empty:
        started = Started(empty, free_port(), "--no-demo")
        try:
            started.wait_until_ready()
            logins = json.loads((empty / "logins.json").read_text())
            assert list(logins) == ["operator"]
            operator = Visitor(f"http://127.0.0.1:{started.port}")
            operator.log_in(logins["operator"]["email"], logins["operator"]["password"])
            operator.get("/admin/")
            assert operator.api("market/listings")["listings"] == []
            styles = re.findall(r'href="(/static/[^"]+\.css)"', operator.http.get("/market/").text)
            assert styles
            assert {operator.http.get(style).status_code for style in styles} == {200}
        finally:
            started.stop()
        assert left_running(empty) == []
        said = refused(empty, "--port", str(free_port()))
        assert "belongs to an empty start (--no-demo): start with --no-demo" in said


def _a_killed_child_comes_back(started: Started) -> None:
    os.kill(started.child("gpunex.doorbell"), signal.SIGKILL)
    deadline = time.monotonic() + 30
    while "doorbell: starting again" not in started.said:
        assert time.monotonic() < deadline, started.said
        time.sleep(0.1)


def _modes_are_private(folder: Path) -> None:
    assert folder.stat().st_mode & 0o777 == 0o711
    private = [folder / "logins.json", folder / "gpunex.json", *(folder / "secrets").iterdir()]
    assert {path.name: oct(path.stat().st_mode & 0o077) for path in private} == {path.name: "0o0" for path in private}


def refused(folder: Path, *arguments: str, **environment: str) -> str:
    """The one sentence with which a start is refused; nothing is left running."""
    done = subprocess.run(
        [sys.executable, "-m", "gpunex.starter", "--data", str(folder), *arguments],
        cwd=ROOT,
        env=plain_environment(**environment),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert left_running(folder) == []
    assert re.fullmatch(r"bin/start: [^\n]+\n", done.stderr), done.stderr
    return done.stderr.strip()


def contents(folder: Path) -> dict[str, str]:
    """Every file below, but the lock, which says nothing about anybody's data."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "lock"]
    return {str(path.relative_to(folder)): path.read_text() for path in files}


@pytest.fixture
def empty() -> Iterator[Path]:
    with data_folder() as found:
        yield found


def test_a_taken_port_is_named(empty: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = refused(empty, "--port", str(port))
    assert said.startswith(f"bin/start: Port {port} on 127.0.0.1 is taken")
    assert not empty.exists()


def test_docker_without_an_engine_is_refused(empty: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gpunex.starter", "--data", str(empty), "--docker"],
        cwd=ROOT,
        env=plain_environment(DOCKER_HOST=f"unix://{empty}/docker.sock"),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 2
    assert done.stderr.endswith("bin/start: error: --docker: no Docker Engine answers on this machine\n")
    assert not empty.exists()


def test_a_foreign_folder_is_left_alone(empty: Path) -> None:
    (empty / "photos").mkdir(parents=True)
    assert "is not a data folder of GPUnex" in refused(empty, "--port", str(free_port()))
    assert [entry.name for entry in empty.iterdir()] == ["photos"]


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
    assert contents(empty) == {"gpunex.json": marker}


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
            timeout=300,
        )
        process.communicate("")
    assert done.returncode == 1
    assert f"Another bin/start (process {process.pid}) is running" in done.stderr


def test_a_database_of_something_else_is_refused(empty: Path, committed_db: str) -> None:
    said = _refused_with_this_database(empty)
    assert "the database holds tables of something else" in said


def test_a_demo_is_refused_on_a_database_that_is_no_demos(empty: Path, committed_db: str) -> None:
    """Where real money may be, no play money is mixed in."""
    Installation.objects.create(id=1, kind="plain", genesis_hash="", created_at=clock.now())
    said = _refused_with_this_database(empty)
    assert "the database holds an installation of the kind 'plain'" in said
    assert list(Installation.objects.values_list("kind", flat=True)) == ["plain"]


def _refused_with_this_database(folder: Path) -> str:
    """Nobody and nothing was added to it."""
    database = {name: os.environ[name] for name in ("DATABASE_URL", "DATABASE_OWNER_URL")}
    said = refused(folder, "--port", str(free_port()), **database)
    assert not User.objects.exists()
    assert not (folder / "logins.json").exists()
    return said


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
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["bin", "programs"]
    assert done.stderr == "GPUnex needs Python 3.11 or newer; found Python 3.9.2.\n"

"""Real PostgreSQL and Valkey for every test; the app's own database role; sockets beyond loopback are blocked.

The ledger refuses TRUNCATE, so no test ever flushes: a test that must commit takes ``committed_db`` and gets a database
of its own, cloned from the migrated template.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg2
import pytest
from django.db import connections
from django.utils import translation

from tests import services as test_services
from tests.plugin import SERVICES

pytest_plugins = ["tests.factories.cast", "tests.factories.reliability"]

ROOT = Path(__file__).resolve().parent.parent


def _admin(statement: str, *, retries: int = 0) -> None:
    password = (SERVICES.folder / "postgres.password").read_text()
    connection = psycopg2.connect(
        host="127.0.0.1", port=SERVICES.postgres_port, user="postgres", password=password, dbname="postgres"
    )
    connection.autocommit = True
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement)
    finally:
        connection.close()


def _migrate_template() -> None:
    """Migrate the template once per run, whichever worker comes first; nobody is connected to it afterwards."""
    done = SERVICES.folder / "template-ready"
    with test_services.exclusive(SERVICES.folder / "template.lock"):
        if done.exists():
            return
        command = [sys.executable, "manage.py", "migrate", "--database", "owner", "--verbosity", "0"]
        migrated = subprocess.run(command, cwd=ROOT, env=os.environ | test_services.environment(SERVICES), check=False)
        if migrated.returncode != 0:
            pytest.exit("the migrations failed; see above", returncode=1)
        done.touch()


def clone_database(name: str) -> None:
    with test_services.exclusive(SERVICES.folder / "template.lock"):
        _admin(f'CREATE DATABASE "{name}" OWNER gpunex_owner TEMPLATE {test_services.TEMPLATE} STRATEGY FILE_COPY')


def drop_database(name: str) -> None:
    _admin(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def _point_at(name: str) -> None:
    for alias in ("default", "owner"):
        connections[alias].close()
        connections[alias].settings_dict["NAME"] = name
        connections[alias].settings_dict["CONN_MAX_AGE"] = None
    os.environ["DATABASE_URL"] = SERVICES.database_url("app", name)
    os.environ["DATABASE_OWNER_URL"] = SERVICES.database_url("owner", name)


@pytest.fixture(scope="session")
def django_db_setup(django_db_blocker: Any, worker_id: str) -> Iterator[None]:
    """pytest-django's hook: this worker's database, a clone of the migrated template."""
    _migrate_template()
    name = f"gpunex_{worker_id}"
    clone_database(name)
    for alias in ("default", "owner"):
        # A test is one transaction, and on a busy machine it may think for longer than a request may.
        options = connections[alias].settings_dict["OPTIONS"]
        options["options"] += " -c idle_in_transaction_session_timeout=0"
    with django_db_blocker.unblock():
        _point_at(name)
    yield
    with django_db_blocker.unblock():
        connections.close_all()
    drop_database(name)


@pytest.fixture(scope="session")
def worker_id(request: pytest.FixtureRequest) -> str:
    return getattr(request.config, "workerinput", {}).get("workerid", "main")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What must stay together on one worker begins first: the longest of it would else be waited for at the end. The groups
    are few, so that tests which only wait run beside these, which keep a core busy."""
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)


def pytest_collection_finish(session: pytest.Session) -> None:
    """A group that xdist does not see is spread over the workers: each would start a marketplace of its own. (xdist 3.8 marks
    them with a suffix that pytest 9.2 no longer takes.)"""
    if hasattr(session.config, "workerinput"):
        grouped = [item for item in session.items if item.get_closest_marker("xdist_group")]
        if any("@" not in item.nodeid for item in grouped):
            raise pytest.UsageError("xdist_group is not seen: this pytest and this pytest-xdist do not fit together")


@pytest.fixture(autouse=True)
def _no_language_left_behind() -> Iterator[None]:
    """A request in Chinese leaves its language active in this thread; the next test starts in English again."""
    yield
    translation.deactivate()


@pytest.fixture
def committed_db(django_db_setup: None, django_db_blocker: Any) -> Iterator[str]:
    """A database of the test's own where transactions really commit; yields its name. Threads, processes: all see it."""
    before = connections["default"].settings_dict["NAME"]
    name = f"gpunex_{uuid4().hex[:16]}"
    clone_database(name)
    with django_db_blocker.unblock():
        _point_at(name)
        try:
            yield name
        finally:
            connections.close_all()
            _point_at(before)
    drop_database(name)


_real_connect = socket.socket.connect


def _loopback_only(self: socket.socket, address: Any) -> Any:
    if self.family in (socket.AF_INET, socket.AF_INET6):
        host = address[0]
        if not (host.startswith("127.") or host in {"::1", "localhost", "0.0.0.0"}):
            raise RuntimeError(f"a test tried to reach {host}: sockets beyond loopback are blocked")
    return _real_connect(self, address)


socket.socket.connect = _loopback_only  # type: ignore[method-assign,assignment]

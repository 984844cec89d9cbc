"""A worker keeps its database connection from task to task, and replaces one that has broken."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import current_app
from django.db import connection

from accounts.models import User
from gpunex.embedded import Process
from marketplace.models import Job
from tests.agent.waiting import eventually
from tests.factories.billing import funded
from tests.factories.cast import person
from tests.factories.marketplace import job_new, listing_new
from tests.services import ROOT

CELERY = [sys.executable, "-m", "celery", "--app", "gpunex.celery", "worker", "--queues", "default"]
OPTIONS = ["--concurrency", "1", "--without-mingle", "--without-gossip", "--without-heartbeat"]


@pytest.fixture
def worker(committed_db: str, tmp_path: Path) -> Iterator[Process]:
    with current_app.connection_for_write() as broker:
        broker.default_channel.queue_purge("default")
    database = os.environ["DATABASE_URL"].rpartition("/")[0] + f"/{committed_db}"
    process = Process("worker", tmp_path / "worker.log")
    environment = os.environ | {"DATABASE_URL": database, "PROCESS": "worker"}
    process.start([*CELERY, *OPTIONS], environment=environment, cwd=ROOT)
    yield process
    process.stop()


def servers() -> list[int]:
    """Process ids of PostgreSQL's ends of the worker's connections."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'gpunex-worker'"
        )
        return [row[0] for row in cursor.fetchall()]


def test_tasks_share_a_connection_and_survive_its_end(worker: Process) -> None:
    listing_new(gpus=4)
    ravi: User = person("Ravi")
    funded(ravi, 100_000_000)

    def placed() -> None:
        """The worker has placed one more job."""
        job = job_new(ravi)
        # Its own message expires, as beat would send it again; this one waits for a worker that is slow to start.
        current_app.send_task("marketplace.jobs_place")
        eventually(lambda: Job.objects.get(pk=job.pk).status == "active", "the worker places it", 120)

    placed()
    first = servers()
    assert len(first) == 1
    placed()
    assert servers() == first
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s)", first)
    eventually(lambda: servers() == [], "the connection is cut")
    placed()
    (second,) = servers()
    assert second != first[0]

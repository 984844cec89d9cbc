"""A job goes to its queue by its name, from any process: the money worker alone reaches the signer."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from core.jobs import QUEUES
from gpunex.celery import app
from gpunex.routes import JOBS
from tests.services import ROOT

ROUTE = """
import django
django.setup()
from celery import current_app
for name in ("billing.payout_submit", "core.news_deliver", "core.invariants_check", "accounts.mail_send", "no.such_job"):
    print(current_app.amqp.router.route({}, name)["queue"].name)
"""


def test_a_web_process_sends_each_job_to_its_queue() -> None:
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "gpunex.settings"}
    done = subprocess.run([sys.executable, "-c", ROUTE], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["money", "default", "sweep", "mail", "default"]


@pytest.mark.parametrize("described", ["docker-compose.yml", "docs/operations.md", "gpunex/starter/marketplace.py"])
def test_every_queue_has_a_worker(described: str) -> None:
    workers = re.findall(r'--queues"?,? "?([a-z,]+)', (ROOT / described).read_text())
    assert sorted(queue for worker in workers for queue in worker.split(",")) == sorted(QUEUES)


def test_every_job_has_one_queue_and_says_so_in_one_place() -> None:
    app.loader.import_default_modules()
    registered = {name: task for name, task in app.tasks.items() if not name.startswith("celery.")}
    assert sorted(name for names in JOBS.values() for name in names) == sorted(registered)
    assert set(JOBS) == set(QUEUES)
    # A task that names a queue, and a schedule that does, would be a second way: they win over the routes.
    assert [name for name, task in registered.items() if "queue" in vars(type(task))] == []
    assert [entry for entry in app.conf.beat_schedule.values() if "queue" in entry["options"]] == []


def test_what_reaches_the_signer_or_the_books_of_payouts_is_the_money_workers() -> None:
    money = {name for name in app.tasks if name.startswith(("billing.payout", "billing.bank_"))}
    assert money and money <= set(JOBS["money"])

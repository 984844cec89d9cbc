"""A job goes to the queue that stands beside its code, from any process: the money worker alone reaches the signer."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from core.jobs import QUEUES
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

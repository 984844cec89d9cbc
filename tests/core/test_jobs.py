"""Enqueueing happens after commit, and never fails a request whose work is committed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from celery import current_app
from django.db import transaction

from core import jobs
from core.models import Slot

REQUEST = """
import time, django
django.setup()
from django.db import transaction
from core import jobs
from core.models import Slot
began = time.monotonic()
with transaction.atomic():
    Slot.objects.create(name="work", slot="1", claimed_at="2026-01-01T00:00:00Z")
    jobs.enqueue("core.news_deliver")
print(time.monotonic() - began)
"""


def test_a_broker_that_is_down_fails_no_committed_request(committed_db: str) -> None:
    environment = os.environ | {"REDIS_URL": "redis://127.0.0.1:1/0", "DJANGO_SETTINGS_MODULE": "gpunex.settings"}
    done = subprocess.run([sys.executable, "-c", REQUEST], env=environment, capture_output=True, text=True, check=True)
    assert "job_not_enqueued" in done.stderr
    assert float(done.stdout) < 2.0, "the request waited for the broker"
    assert Slot.objects.filter(name="work").exists()


def test_nothing_is_sent_for_a_transaction_that_failed(committed_db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    monkeypatch.setattr(current_app, "send_task", lambda name, **_: sent.append(name))
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        jobs.enqueue("core.news_deliver")
        raise ZeroDivisionError
    assert sent == []
    jobs.enqueue("core.news_deliver")
    assert sent == ["core.news_deliver"]

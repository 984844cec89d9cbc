"""Enqueueing happens after commit, and never fails a request whose work is committed."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest
from celery import current_app
from django.conf import settings
from django.db import transaction

from core import jobs
from core.models import Slot

REQUEST = """
import django
django.setup()
from django.db import transaction
from core import jobs
from core.models import Slot
with transaction.atomic():
    Slot.objects.create(name="work", slot="1", claimed_at="2026-01-01T00:00:00Z")
    jobs.enqueue("core.news_deliver")
"""
COMES_BACK_SECONDS = 90
"""Far above the second that the broker is given, for a slow machine; far below the for ever of a client that insists."""


@pytest.fixture(params=["refuses", "is silent"])
def broken_broker(request: pytest.FixtureRequest) -> Iterator[str]:
    """Its address. The silent one lets clients connect and never says a word, which is how a stuck server looks."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if request.param == "is silent":
            listener.listen()
        yield f"redis://127.0.0.1:{listener.getsockname()[1]}/0"


def test_a_broker_that_is_down_fails_no_committed_request(committed_db: str, broken_broker: str) -> None:
    environment = os.environ | {"REDIS_URL": broken_broker, "DJANGO_SETTINGS_MODULE": "gpunex.settings"}
    done = subprocess.run(
        [sys.executable, "-c", REQUEST],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=COMES_BACK_SECONDS,
    )
    assert "job_not_enqueued" in done.stderr
    assert Slot.objects.filter(name="work").exists()


def test_the_broker_is_given_one_second() -> None:
    options = settings.CELERY_BROKER_TRANSPORT_OPTIONS
    assert options["socket_timeout"] == options["socket_connect_timeout"] == 1.0


def test_nothing_is_sent_for_a_transaction_that_failed(committed_db: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    monkeypatch.setattr(current_app, "send_task", lambda name, **_: sent.append(name))
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        jobs.enqueue("core.news_deliver")
        raise ZeroDivisionError
    assert sent == []
    jobs.enqueue("core.news_deliver")
    assert sent == ["core.news_deliver"]


def test_a_job_that_the_schedule_sends_again_anyway_waits_no_longer_than_that(
    committed_db: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: dict[str, object] = {}
    monkeypatch.setattr(current_app, "send_task", lambda name, **options: sent.update({name: options["expires"]}))
    jobs.enqueue("core.news_deliver")
    jobs.enqueue("accounts.mail_send", mail_id="1")
    jobs.enqueue("accounts.mails_sweep", only="1")
    assert sent == {"core.news_deliver": 5.0, "accounts.mail_send": None, "accounts.mails_sweep": None}

from __future__ import annotations

import time

import pytest
from django.conf import settings

from core.bell import CHANNEL_PREFIX, TICKET_SECONDS, ring, ticket_channel, ticket_issue
from core.valkey import valkey


def opened(ticket: str, *, later: float = 0.0, key: str | None = None) -> str | None:
    return ticket_channel(ticket, key=key or settings.BELL_SECRET, unix_now=time.time() + later)


def test_a_ticket_opens_its_channel_for_ten_minutes() -> None:
    ticket = ticket_issue("machine-1")
    assert opened(ticket) == "machine-1"
    assert opened(ticket, later=TICKET_SECONDS + 2) is None


@pytest.mark.parametrize(
    "forge",
    [
        lambda t: t.replace("machine-1", "machine-2"),
        lambda t: t.replace(t.split(".")[1], str(int(t.split(".")[1]) + 60)),
        lambda t: t[:-1] + ("0" if t[-1] != "0" else "1"),
        lambda t: "",
        lambda t: "machine-1",
        lambda t: "machine-1.-5.x",
        lambda t: "machine-1." + "9" * 40 + ".x",
    ],
)
def test_a_forged_ticket_opens_nothing(forge) -> None:  # type: ignore[no-untyped-def]
    assert opened(forge(ticket_issue("machine-1"))) is None


def test_a_ticket_of_another_installation_opens_nothing() -> None:
    assert opened(ticket_issue("machine-1"), key="another secret") is None


def listen(channel: str):  # type: ignore[no-untyped-def]
    listener = valkey().pubsub(ignore_subscribe_messages=True)
    listener.subscribe(CHANNEL_PREFIX + channel)
    listener.get_message(timeout=60)  # the subscription's own confirmation
    return listener


@pytest.mark.django_db
def test_a_ring_is_heard_after_commit_only(django_capture_on_commit_callbacks) -> None:  # type: ignore[no-untyped-def]
    listener = listen("machine-1")
    with django_capture_on_commit_callbacks() as rings:
        ring("machine-1")
    assert listener.get_message(timeout=0.05) is None
    for call in rings:
        call()
    heard = listener.get_message(timeout=60)
    listener.close()
    assert heard is not None
    assert heard["data"] == "ring"

"""A job's output: bytes at offsets, once, bounded, and never more than the customer's."""

from __future__ import annotations

import pytest

from accounts.models import User
from agent_protocol.messages import LogChunk as Message
from core.errors import NotFound
from marketplace import logtext
from marketplace.models import LogChunk
from marketplace.selectors import log_read
from marketplace.services import LogOffset, StaleToken, log_append
from tests.factories.marketplace import Story, machine_new, provider_new, story
from tests.marketplace.conftest import At

pytestmark = pytest.mark.django_db


def append(told: Story, at: At, offset: int, content: bytes, *, final: bool = False, token: str | None = None) -> int:
    chunk = Message.of(token=token or told.agent.token(told.attempt), offset=offset, content=content, final=final)
    return log_append(machine=told.agent.machine, attempt_id=told.attempt.pk, chunk=chunk, now=at(offset + 1))


def test_chunks_line_up(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0))
    assert append(told, at, 0, b"hello ") == 6
    assert append(told, at, 6, b"world\n", final=True) == 12
    told.reload()
    log = log_read(told.attempt)
    assert (log.text, log.next_offset, log.total_bytes, log.final) == ("hello world\n", 12, 12, True)
    assert log_read(told.attempt, offset=3).text == "lo world\n"
    assert log_read(told.attempt, offset=12).text == ""


@pytest.mark.parametrize("offset", [0, 3, 7])
def test_a_repetition_overlap_or_gap_is_told_where_to_go_on(ravi: User, at: At, offset: int) -> None:
    told = story(ravi, now=at(0))
    append(told, at, 0, b"hello ")
    with pytest.raises(LogOffset) as refusal:
        append(told, at, offset, b"x")
    assert refusal.value.next_offset == 6
    assert LogChunk.objects.count() == 1


def test_nothing_follows_the_final_chunk(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0))
    append(told, at, 0, b"bye", final=True)
    with pytest.raises(LogOffset):
        append(told, at, 3, b"x")


def test_it_comes_under_the_attempts_token_from_its_machine(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0))
    with pytest.raises(StaleToken):
        append(told, at, 0, b"x", token="gpxt_other")
    stranger = machine_new(provider_new())
    chunk = Message.of(token=told.agent.token(told.attempt), offset=0, content=b"x", final=False)
    with pytest.raises(NotFound):
        log_append(machine=stranger, attempt_id=told.attempt.pk, chunk=chunk, now=at(1))
    assert LogChunk.objects.count() == 0


def test_beyond_the_limit_it_is_counted_and_not_kept(ravi: User, at: At, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marketplace.services.logs.LOG_LIMIT_BYTES", 8)
    told = story(ravi, now=at(0))
    assert append(told, at, 0, b"123456") == 6
    assert append(told, at, 6, b"789abc") == 12
    assert append(told, at, 12, b"more", final=True) == 16
    told.reload()
    log = log_read(told.attempt)
    assert (log.text, log.dropped, log.total_bytes) == ("12345678", True, 16)
    assert logtext.LOG_LIMIT_BYTES == 16 * 2**20


def test_a_character_in_two_chunks_stays_whole(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0))
    euro = "€".encode()
    append(told, at, 0, b"5 " + euro[:2])
    told.reload()
    first = log_read(told.attempt)
    assert (first.text, first.next_offset) == ("5 ", 2)
    append(told, at, 4, euro[2:] + b"!")
    told.reload()
    assert log_read(told.attempt, offset=first.next_offset).text == "€!"


def test_after_the_end_the_rest_of_the_log_still_comes(ravi: User, at: At) -> None:
    told = story(ravi, now=at(0))
    append(told, at, 0, b"a")
    told.agent.end(told.attempt, at=at(30), elapsed=20)
    assert append(told, at, 1, b"b", final=True) == 2
    assert log_read(told.reload().attempt).text == "ab"

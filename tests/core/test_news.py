"""News is delivered once to every consumer, in spite of failing handlers and of workers side by side."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import time_machine
from django.db import connection, transaction

from core import clock, news
from core.ids import uuid7
from core.models import Delivery

heard: Counter[tuple[str, UUID]] = Counter()
broken = False


def first(subject: UUID) -> None:
    heard["first", subject] += 1


def second(subject: UUID) -> None:
    if broken:
        raise RuntimeError("the consumer is broken")
    heard["second", subject] += 1


WIRING = news.Wiring(
    topics={"machine.flip": ["a.first", "b.second"], "quiet": []},
    handlers={"a.first": f"{__name__}.first", "b.second": f"{__name__}.second"},
)


@pytest.fixture(autouse=True)
def _wired(settings: Any) -> None:
    global broken
    heard.clear()
    broken = False
    settings.NEWS_WIRING = f"{__name__}.WIRING"


@pytest.mark.django_db
def test_each_consumer_hears_it_once() -> None:
    subject = uuid7()
    news.publish("machine.flip", subject, now=clock.now())
    assert news.deliver() == 2
    assert news.deliver() == 0
    assert heard == {("first", subject): 1, ("second", subject): 1}


@pytest.mark.django_db
def test_news_of_a_transaction_that_failed_is_no_news() -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        news.publish("machine.flip", uuid7(), now=clock.now())
        raise ZeroDivisionError
    assert Delivery.objects.count() == 0


@pytest.mark.django_db
def test_an_unknown_topic_is_a_programming_error() -> None:
    with pytest.raises(KeyError):
        news.publish("no.such.topic", uuid7(), now=clock.now())
    news.publish("quiet", uuid7(), now=clock.now())
    assert Delivery.objects.count() == 0


@pytest.mark.django_db
def test_a_failing_consumer_is_tried_again_later_and_keeps_nobody_waiting() -> None:
    global broken
    broken = True
    subject, now = uuid7(), clock.now()
    news.publish("machine.flip", subject, now=now)
    news.deliver()
    assert heard == {("first", subject): 1}
    row = Delivery.objects.get(consumer="b.second")
    assert (row.attempts, row.done_at, "broken" in row.error) == (1, None, True)
    broken = False
    assert news.deliver() == 0, "not due yet"
    with time_machine.travel(now + timedelta(seconds=news.RETRY_SECONDS[0] + 1)):
        assert news.deliver() == 1
    assert heard["second", subject] == 1


def test_workers_side_by_side_share_the_deliveries(committed_db: str) -> None:
    subjects = [uuid7() for _ in range(20)]
    for subject in subjects:
        news.publish("machine.flip", subject, now=clock.now())

    def work(_: int) -> int:
        try:
            return news.deliver()
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(work, range(4))) == 40
    assert set(heard.values()) == {1}
    assert len(heard) == 40

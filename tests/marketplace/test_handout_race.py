"""Several ask for an attempt's secrets at once, on real transactions. First without the guard: several get them."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from marketplace.models import Attempt
from marketplace.services import SecretsGone
from tests.factories.cast import person
from tests.factories.concurrency import together
from tests.factories.marketplace import Story
from tests.marketplace.conftest import At
from tests.marketplace.test_handout import PASSWORD, collect, placed

ASKING = 4


@pytest.fixture
def waiting(committed_db: str, at: At) -> Story:
    return placed(person("Ravi"), at)


def test_without_the_guard_several_get_them(waiting: Story) -> None:
    """The control: look whether they are there, then take them."""
    looked = threading.Barrier(ASKING)

    def look_then_take(_number: int) -> bool:
        there = Attempt.objects.get(pk=waiting.attempt.pk).secrets_sent_at is None
        looked.wait(timeout=60)
        return there

    assert sum(together(ASKING, look_then_take)) > 1


def test_of_several_who_ask_at_once_one_gets_them(waiting: Story, at: At) -> None:
    token = waiting.agent.token(waiting.attempt)

    def ask(_number: int) -> str:
        try:
            return collect(waiting, at, token=token).environment["TOKEN"]
        except SecretsGone as error:
            return error.code

    assert Counter(together(ASKING, ask)) == {PASSWORD: 1, "secrets_gone": ASKING - 1}

"""A POST that costs money happens once per key, however often and from however many sides it comes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from core import clock
from core.errors import Conflict, DomainError, Invalid
from core.idempotency import Answer, answer_once
from core.models import IdempotencyKey, Slot


def post(key: str | None, body: bytes = b"{}", *, fail: bool = False) -> tuple[Answer, bool]:
    def make() -> Answer:
        Slot.objects.create(name="made", slot=str(Slot.objects.count()), claimed_at=clock.now())
        if fail:
            raise DomainError("no funds", code="insufficient_funds")
        return 201, {"id": Slot.objects.count()}

    return answer_once(principal="user:ravi", route="jobs", key=key, body=body, now=clock.now(), make=make)


@pytest.mark.django_db
def test_the_same_key_and_body_give_the_earlier_answer() -> None:
    assert post("k") == ((201, {"id": 1}), False)
    assert post("k") == ((201, {"id": 1}), True)
    assert Slot.objects.count() == 1


@pytest.mark.django_db
def test_another_body_under_the_key_is_refused_and_nothing_moves() -> None:
    post("k")
    with pytest.raises(Conflict) as refusal:
        post("k", b'{"gpus": 8}')
    assert refusal.value.code == "idempotency_mismatch"
    assert Slot.objects.count() == 1


@pytest.mark.django_db
def test_a_refused_request_gives_its_key_back() -> None:
    with pytest.raises(DomainError):
        post("k", fail=True)
    assert (Slot.objects.count(), IdempotencyKey.objects.count()) == (0, 0)
    assert post("k") == ((201, {"id": 1}), False)


@pytest.mark.django_db
@pytest.mark.parametrize("key", ["", "x" * 81, "a\nb"])
def test_a_bad_key_is_named(key: str) -> None:
    with pytest.raises(Invalid, match="Idempotency-Key"):
        post(key)


def test_ten_twins_make_one(committed_db: str) -> None:
    def twin(_: int) -> tuple[Answer, bool]:
        try:
            return post("k")
        finally:
            connection.close()

    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(twin, range(10)))
    assert all(answer == (201, {"id": 1}) for answer, _ in answers)
    assert sorted(replayed for _, replayed in answers) == [False] + [True] * 9
    assert Slot.objects.count() == 1

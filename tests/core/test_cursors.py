from __future__ import annotations

import pytest

from core.cursors import cursor_decode, cursor_encode
from core.errors import Invalid


def test_a_cursor_brings_back_its_values() -> None:
    cursor = cursor_encode(["0.38", 7, None], scope="market:price")
    assert cursor_decode(cursor, scope="market:price") == ["0.38", 7, None]


@pytest.mark.parametrize(
    "damage", [lambda c: c[:-1], lambda c: "A" + c[1:], lambda c: c + "AAAA", lambda c: "é", lambda c: "x" * 600]
)
def test_a_tampered_cursor_is_refused_and_named(damage) -> None:  # type: ignore[no-untyped-def]
    cursor = cursor_encode([1, 2], scope="market:price")
    with pytest.raises(Invalid) as refusal:
        cursor_decode(damage(cursor), scope="market:price")
    assert list(refusal.value.fields) == ["cursor"]


def test_a_cursor_of_another_order_is_refused() -> None:
    with pytest.raises(Invalid):
        cursor_decode(cursor_encode([1], scope="market:price"), scope="market:rank")

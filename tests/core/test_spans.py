"""Span algebra against sets of minutes: slow, and right by inspection."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from core import spans
from core.spans import Span

START = datetime(2026, 3, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def span(first: int, last: int) -> Span:
    return START + first * MINUTE, START + last * MINUTE


def minutes(found: list[Span]) -> set[int]:
    return {n for start, end in found for n in range((start - START) // MINUTE, (end - START) // MINUTE)}


several = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)).map(lambda pair: span(*pair)), max_size=6)


def tidy(found: list[Span]) -> bool:
    edges = [edge for pair in found for edge in pair]
    return all(first < second for first, second in pairwise(edges))


@given(several, several)
def test_it_agrees_with_sets_of_minutes(left: list[Span], right: list[Span]) -> None:
    for found, expected in (
        (spans.union([*left, *right]), minutes(left) | minutes(right)),
        (spans.intersect(left, right), minutes(left) & minutes(right)),
        (spans.subtract(left, right), minutes(left) - minutes(right)),
        (spans.clip(left, *span(10, 20)), minutes(left) & set(range(10, 20))),
    ):
        assert tidy(found)
        assert minutes(found) == expected
    assert spans.length(spans.union(left)) == len(minutes(left)) * MINUTE


def test_it_joins_over_gaps_up_to_the_given_length() -> None:
    pair = [span(0, 5), span(7, 9)]
    assert spans.union(pair, joining=2 * MINUTE) == [span(0, 9)]
    assert spans.union(pair, joining=1 * MINUTE) == pair

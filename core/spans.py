"""Algebra of half-open spans of time [start, end): the one place where gaps, overlaps and clipping are worked out.

A list of spans is *tidy* when it is sorted, has no empty span and no two that touch; every function returns tidy lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

Span = tuple[datetime, datetime]
ZERO = timedelta(0)


def union(spans: Iterable[Span], *, joining: timedelta = ZERO) -> list[Span]:
    """The spans merged; two whose gap is at most ``joining`` become one."""
    merged: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if merged and start - merged[-1][1] <= joining:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def intersect(left: Iterable[Span], right: Iterable[Span]) -> list[Span]:
    """The time that lies in both."""
    first, second = union(left), union(right)
    found: list[Span] = []
    i = j = 0
    while i < len(first) and j < len(second):
        start, end = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if start < end:
            found.append((start, end))
        if first[i][1] <= second[j][1]:
            i += 1
        else:
            j += 1
    return found


def subtract(spans: Iterable[Span], removed: Iterable[Span]) -> list[Span]:
    """The time that lies in ``spans`` and not in ``removed``."""
    kept = union(spans)
    holes = union(removed)
    if not kept or not holes:
        return kept
    edges = [kept[0][0], *(edge for hole in holes for edge in hole), kept[-1][1]]
    outside = [(edges[i], edges[i + 1]) for i in range(0, len(edges), 2) if edges[i] < edges[i + 1]]
    return intersect(kept, outside)


def clip(spans: Iterable[Span], start: datetime, end: datetime) -> list[Span]:
    """The time that lies in ``spans`` between two instants."""
    return intersect(spans, [(start, end)]) if start < end else []


def length(spans: Sequence[Span]) -> timedelta:
    """How long tidy spans last in all."""
    return sum((end - start for start, end in spans), ZERO)

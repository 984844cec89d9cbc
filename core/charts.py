"""Small line charts as SVG geometry, made on the server: readable without a script, nothing to load. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

WIDTH, HEIGHT = 600, 120
"""The viewBox; the page scales it."""


@dataclass(frozen=True)
class Chart:
    """lines: the ``points`` attribute of one polyline per unbroken stretch. dots: stretches of a single reading.
    gaps: (x, width) of the stretches of which nothing is known."""

    lines: tuple[str, ...]
    dots: tuple[tuple[str, str], ...]
    guide_y: str | None
    first: datetime
    last: datetime
    lowest: float
    highest: float
    gaps: tuple[tuple[str, str], ...] = ()
    width: int = WIDTH
    height: int = HEIGHT


def line_chart(
    readings: Sequence[tuple[datetime, float | None]], *, lowest: float, highest: float, guide: float | None = None
) -> Chart | None:
    """A chart of readings, oldest first; None when there is nothing to draw. An unknown reading (None) breaks the line, it is
    not drawn as 0. ``guide``: a value to mark by a horizontal line, e.g. a minimum."""
    known = [(at, value) for at, value in readings if value is not None]
    if not known:
        return None
    first, last = readings[0][0], readings[-1][0]
    whole = (last - first).total_seconds()

    def x(at: datetime) -> str:
        return f"{WIDTH * (at - first).total_seconds() / whole if whole else WIDTH / 2:.1f}"

    def y(value: float) -> str:
        share = (min(max(value, lowest), highest) - lowest) / (highest - lowest)
        return f"{HEIGHT * (1 - share):.1f}"

    stretches: list[list[tuple[str, str]]] = [[]]
    for at, value in readings:
        if value is None:
            stretches.append([])
        else:
            stretches[-1].append((x(at), y(value)))
    gaps, since = [], None
    for at, value in readings:
        if value is None:
            since = since or at
        elif since is not None:
            gaps.append((since, at))
            since = None
    if since is not None:
        gaps.append((since, last))
    return Chart(
        lines=tuple(" ".join(f"{a},{b}" for a, b in stretch) for stretch in stretches if len(stretch) > 1),
        dots=tuple(stretch[0] for stretch in stretches if len(stretch) == 1),
        guide_y=None if guide is None else y(guide),
        first=first,
        last=last,
        lowest=lowest,
        highest=highest,
        gaps=tuple((x(start), f"{float(x(end)) - float(x(start)):.1f}") for start, end in gaps if start < end),
    )


@dataclass(frozen=True)
class Bars:
    """Bars of equal width over and under a zero line, in the viewBox; ``bars``: (x, y, width, height, words)."""

    bars: tuple[tuple[str, str, str, str, str], ...]
    zero_y: str
    highest: float
    lowest: float
    width: int = WIDTH
    height: int = HEIGHT


def bar_chart(values: Sequence[tuple[str, float]]) -> Bars | None:
    """A bar per (words, value), in order; None when there is nothing to draw. The words say a bar to whoever points at it."""
    if not any(value for _words, value in values):
        return None
    highest, lowest = max(0.0, *(value for _, value in values)), min(0.0, *(value for _, value in values))
    step, scale = WIDTH / len(values), HEIGHT / (highest - lowest)
    gap = min(4.0, step / 5)
    bars = tuple(
        (
            f"{number * step + gap / 2:.1f}",
            f"{(highest - max(value, 0)) * scale:.1f}",
            f"{step - gap:.1f}",
            f"{abs(value) * scale:.1f}",
            words,
        )
        for number, (words, value) in enumerate(values)
    )
    return Bars(bars, f"{highest * scale:.1f}", highest, lowest)

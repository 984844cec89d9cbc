"""The one source of "now". SQL never calls ``now()``; a function reads the clock once and passes the instant on.

The clock is a dotted-path setting (``CLOCK``), so that a test of several processes can move time in all of them at once
through a file, and an operator can see in one place where time comes from.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Protocol

from django.conf import settings
from django.utils.module_loading import import_string


class Clock(Protocol):
    def now(self) -> datetime: ...


class SystemClock:
    """The machine's clock, in UTC."""

    def now(self) -> datetime:
        return datetime.now(UTC)


class FileClock:
    """The machine's clock plus the seconds written in ``CLOCK_FILE`` (a missing or empty file means no offset)."""

    def __init__(self) -> None:
        self.path = Path(settings.CLOCK_FILE)

    def now(self) -> datetime:
        try:
            text = self.path.read_text().strip()
        except FileNotFoundError:
            text = ""
        return datetime.now(UTC) + timedelta(seconds=float(text or 0))


_clocks: dict[str, Clock] = {}


def now() -> datetime:
    """The present instant, aware, in UTC."""
    path = settings.CLOCK
    if path not in _clocks:
        _clocks[path] = import_string(path)()
    return _clocks[path].now()

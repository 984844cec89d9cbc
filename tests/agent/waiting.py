"""The one way in which these tests wait: for a condition, with a deadline."""

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def eventually(condition: Callable[[], Found], what: str, timeout_s: float = 60.0, *, every_s: float = 0.02) -> Found:
    """The condition's first true value. Fails naming what did not happen. `every_s`: seconds between two looks."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"did not happen within {timeout_s} s: {what}")
        time.sleep(every_s)

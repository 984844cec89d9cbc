from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import pytest

from core import clock, invariants

At = Callable[[float], datetime]


@pytest.fixture
def at() -> At:
    """``at(90)``: ninety seconds into the test's story."""
    start = clock.now()
    return lambda seconds: start + timedelta(seconds=seconds)


@pytest.fixture
def books(db: None) -> Iterator[None]:
    """Every invariant holds when the test is over."""
    yield
    assert invariants.check_all() == []

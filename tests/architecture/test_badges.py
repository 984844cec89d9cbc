"""Every status that a row can have has its badge: a tone and a word in both languages."""

from __future__ import annotations

from importlib import import_module

import pytest

from core.badges import STATUSES
from core.states import Moves

APPS = ("accounts", "billing", "providers", "benchmarks", "reliability", "marketplace")


def tables() -> dict[str, Moves]:
    return {
        f"{app}.{name}": found
        for app in APPS
        for name, found in vars(import_module(f"{app}.states")).items()
        if isinstance(found, Moves)
    }


@pytest.mark.parametrize("name", sorted(tables()))
def test_every_state_has_a_badge(name: str) -> None:
    missing = set(tables()[name].states) - set(STATUSES)
    assert missing == set(), "add them to core/badges.py"


def test_the_tables_are_found() -> None:
    assert len(tables()) >= 6

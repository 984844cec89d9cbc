"""Invariants are classes with a ``check()``; they run every 15 minutes in production and at the end of every ledger test."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import structlog
from django.conf import settings
from django.core.cache import cache
from django.utils.module_loading import import_string

log = structlog.get_logger(__name__)

RESULT_KEY = "core:invariants"
RESULT_SECONDS = 3600
"""Four checks in a row have to be missed before the last result is no longer known."""
RESULT_MOST = 50


@dataclass(frozen=True)
class Violation:
    """One broken promise: which invariant, about what, in which words."""

    invariant: str
    subject: str
    message: str


@dataclass(frozen=True)
class Result:
    """What the last check of all invariants found."""

    at: datetime
    violations: list[Violation]


class Invariant(ABC):
    """Something that is always true. ``check`` reads only, and yields what is not."""

    name: str

    @abstractmethod
    def check(self) -> list[Violation]: ...

    def violation(self, subject: object, message: str) -> Violation:
        return Violation(self.name, str(subject), message)


def registered() -> Sequence[Invariant]:
    return [import_string(path)() for path in import_string(settings.INVARIANTS)]


def check_all() -> list[Violation]:
    """Every registered invariant; a check that itself fails is a violation, not a crash of the others."""
    found: list[Violation] = []
    for invariant in registered():
        try:
            found += invariant.check()
        except Exception as error:
            log.exception("invariant_check_failed", invariant=invariant.name)
            found.append(invariant.violation("check", f"The check itself failed: {error!r}"))
    for violation in found:
        log.error(
            "invariant_violated", invariant=violation.invariant, subject=violation.subject, message=violation.message
        )
    return found


def result_keep(violations: list[Violation], *, now: datetime) -> None:
    """Remember what a check of all found, for whoever looks: checking takes longer than a page may."""
    cache.set(RESULT_KEY, Result(now, violations[:RESULT_MOST]), RESULT_SECONDS)


def result_last() -> Result | None:
    """What the last check found; None when none ran within RESULT_SECONDS."""
    found: Result | None = cache.get(RESULT_KEY)
    return found

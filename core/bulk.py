"""One verb on many subjects: each for itself, so that a refusal of one keeps nobody else back and says why."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from django.db import transaction

from core.errors import DomainError

Subject = TypeVar("Subject")


@dataclass(frozen=True)
class Refused(Generic[Subject]):
    subject: Subject
    why: str


@dataclass(frozen=True)
class Done(Generic[Subject]):
    """Every subject is in exactly one of the two, in the order given."""

    done: list[Subject]
    refused: list[Refused[Subject]]


def each(subjects: Iterable[Subject], verb: Callable[[Subject], object]) -> Done[Subject]:
    """Call ``verb`` for every subject in a transaction of its own; a named error moves nothing and is kept as the reason."""
    done: list[Subject] = []
    refused: list[Refused[Subject]] = []
    for subject in subjects:
        try:
            with transaction.atomic():
                verb(subject)
        except DomainError as error:
            refused.append(Refused(subject, error.message))
        else:
            done.append(subject)
    return Done(done, refused)

"""What a bank rail is: a folder that checks accounts, knows its calendar, writes payment files and reads the bank's answers.

SEPA is one; NACHA would be another folder with the same functions. Nothing here knows the database, or says what money does:
a rail turns our orders into bytes and the bank's bytes into the records below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import Protocol

from core.errors import Invalid

FILE_BYTES_MAX = 5 * 1024 * 1024
"""A year of daily statements of a busy account is smaller; what is larger is a mistake or an attack."""


class FileRefused(Invalid):
    """A file from the bank (or for it) that is not what it should be: nothing of it was used. The field is ``file``."""

    code = "bank_file_refused"

    @classmethod
    def because(cls, found: str, allowed: str) -> FileRefused:
        error = cls.field("file", found=found, allowed=allowed)
        return cls(error.message, fields=error.fields)


@dataclass(frozen=True, slots=True)
class OurAccount:
    """The account that payments leave from."""

    holder: str
    account: str
    bank: str


@dataclass(frozen=True, slots=True)
class Payment:
    """One line of a payment file. ``amount_cents`` > 0 in the rail's currency."""

    end_to_end_id: str
    holder: str
    account: str
    amount_cents: int
    text: str


@dataclass(frozen=True, slots=True)
class PaymentOrder:
    """One payment file: the same order gives the same bytes."""

    message_id: str
    created_at: datetime
    execution_date: date
    payer: OurAccount
    payments: Sequence[Payment]


class Verdict(StrEnum):
    """What the bank says it will do with a line. Accepted is not paid."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    PENDING = "pending"


@dataclass(frozen=True, slots=True)
class LineReport:
    end_to_end_id: str
    verdict: Verdict
    reason: str


@dataclass(frozen=True, slots=True)
class StatusReport:
    """The bank's answer to one of our files. ``whole`` is its verdict on a file of which it names no line."""

    message_id: str
    original_message_id: str
    whole: Verdict | None
    whole_reason: str
    lines: tuple[LineReport, ...]


class Direction(StrEnum):
    DEBIT = "debit"
    CREDIT = "credit"


@dataclass(frozen=True, slots=True)
class BookedEntry:
    """One booked movement on our account. ``key`` names it in whatever statement it comes again."""

    key: str
    direction: Direction
    amount_cents: int
    currency: str
    booked_on: date
    end_to_end_id: str
    reference: str
    counterparty: str
    text: str
    reason: str
    problem: str = ""
    """Why it cannot be trusted as a single movement (its details do not add up to it); empty otherwise."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A booked statement of one account: opening + entries = closing, or it is refused by its reader."""

    message_id: str
    statement_id: str
    account: str
    currency: str
    closing_on: date
    opening_cents: int
    closing_cents: int
    entries: tuple[BookedEntry, ...]


class BankRail(Protocol):
    """One way to a bank account."""

    name: str
    currency: str

    def account_check(self, text: str, *, field: str) -> str:
        """The account as it is kept. Raises Invalid naming ``field``: what was found, what is allowed."""
        ...

    def holder_check(self, name: str, *, field: str) -> str:
        """The holder's name in the letters that the rail can carry. Raises Invalid naming ``field``."""
        ...

    def business_day(self, day: date) -> date:
        """``day``, or the first day after it on which the rail moves money."""
        ...

    def file_write(self, order: PaymentOrder) -> bytes:
        """The payment file. Raises FileRefused for an order that the bank would refuse or, worse, pay wrongly."""
        ...

    def file_read(self, data: bytes) -> StatusReport | tuple[Statement, ...]:
        """A file from the bank: its answer to one of ours, or statements. Raises FileRefused."""
        ...


def masked(account: str) -> str:
    """An account number for those who need to recognise it, not to know it."""
    return f"{account[:4]} •••• {account[-4:]}" if len(account) > 8 else "••••"

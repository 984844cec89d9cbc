"""Issuing receipts and statements: the facts, once, under the next number of their series.

A number is taken in the transaction that writes its document, under the series' row lock, and the database refuses any
other (billing/migrations/_laws_documents.py). Every verb may run twice or beside its twin: the second finds the document.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings
from django.db import DatabaseError, transaction

from accounts.models import Party
from accounts.selectors import party_contacts
from accounts.services import notification_send
from billing.models import USDC, Account, Deposit, Document, DocumentSeries, Payout, PayoutAttempt
from billing.periods import month_closed, months_between
from billing.selectors.documents import deposits_unreceipted, facts_hash
from billing.selectors.payouts import destination_shown
from billing.selectors.statements import (
    Line,
    balance_before,
    bank_facts,
    first_moved_at,
    month_lines,
    payout_lines,
    posting_last,
)
from core.errors import Conflict
from core.locks import lock_rows

log = structlog.get_logger(__name__)

SERIES = {Document.Kind.RECEIPT: "R", Document.Kind.MONTHLY: "M", Document.Kind.PAYOUT: "P"}
"""A series is a letter and the year of issue: ``R-2026``. Each begins at 1."""
AT_ONCE = 200
"""Documents per pass: the job comes again in a minute, and no pass keeps the worker for long."""

Names = Callable[[set[UUID]], Mapping[UUID, str]]
"""What people call GPUs or rentals (the machine's name, the job's name): billing knows ids only."""
LATE = timedelta(hours=2)
"""A month is stated this long after its end: what was still being read and posted then is in it."""


def receipt_issue(*, deposit: Deposit, now: datetime) -> Document:
    """The receipt of a credited deposit. Raises Conflict for one that belongs to nobody yet."""
    if deposit.party is None or deposit.state != Deposit.State.CREDITED:
        raise Conflict("The deposit is not credited to anybody.")
    credited_at = (deposit.claim_transfer or deposit.transfer).effective_at.isoformat()
    line = {
        "kind": "deposit",
        "from": credited_at,
        "until": credited_at,
        "reference": deposit.signature,
        "amount_micro": deposit.amount_micro,
    }
    facts = {
        **_head(deposit.party),
        "lines": [line],
        "signature": deposit.signature,
        "sender": deposit.sender,
        "account": deposit.account,
        "block_time": deposit.block_time.isoformat() if deposit.block_time else None,
        "credited_at": credited_at,
    }
    return _issue(Document.Kind.RECEIPT, deposit.party, deposit.amount_micro, facts, now, deposit=deposit)


def receipts_issue(*, now: datetime) -> int:
    """A receipt for every credited deposit that has none; returns how many. One that fails keeps nobody else waiting."""
    issued = 0
    for deposit in deposits_unreceipted(AT_ONCE):
        try:
            receipt_issue(deposit=deposit, now=now)
            issued += 1
        except DatabaseError:
            log.exception("receipt_not_issued", deposit=str(deposit.pk))
    return issued


def payout_statement_issue(
    *, payout: Payout, now: datetime, gpu_names: Names | None = None, addressee: str = ""
) -> Document:
    """The statement of a settled payout: its lines add up to the transfer. Raises Conflict while it is not settled."""
    if payout.status != Payout.Status.SETTLED:
        raise Conflict("The payout is not settled.")
    found = payout_lines(payout)
    settled = PayoutAttempt.objects.filter(payout=payout, state=PayoutAttempt.State.SETTLED).first()
    head = _head(payout.party)
    facts = {
        **head,
        "addressee": {**head["addressee"], **({"name": addressee} if addressee else {})},
        "lines": _named(found.lines, "gpu", gpu_names),
        "payout": str(payout.pk),
        "cycle": payout.run.kind,
        "since": found.since.isoformat() if found.since else None,
        "until": found.until.isoformat(),
        "rail": payout.rail,
        "address": destination_shown(payout),
        **bank_facts(payout),
        "signature": settled.signature if settled else "",
        "settled_at": payout.settled_at.isoformat() if payout.settled_at else None,
    }
    period = {"period_start": payout.run.period_start, "period_end": payout.run.period_end}
    return _issue(Document.Kind.PAYOUT, payout.party, payout.amount_micro, facts, now, payout=payout, **period)


def monthly_statement_issue(
    *, party: Party, start: date, end: date, now: datetime, rental_names: Names | None = None
) -> Document | None:
    """The statement of what moved a customer's balance in the month [start, end); None for a month in which nothing did.

    Tells the party's people, by mail with a link, when this call issued it. Months are issued in their order: what is
    posted too late for one is in the next. Raises Conflict for a month that is not over, or before one that is stated.
    """
    if end > now.date():
        raise Conflict(f"month: {start:%Y-%m} is not over.")
    account = Account.objects.filter(owner=party, kind=Account.Kind.CUSTOMER, asset=USDC).first()
    if account is None:
        return None
    with transaction.atomic():
        # Nothing is being posted to this balance while we look: postings of live accounts are written under this lock.
        lock_rows(Account.objects.all(), [account.pk])
        stated = Document.objects.filter(party=party, kind=Document.Kind.MONTHLY)
        if earlier := stated.filter(period_start=start).first():
            return earlier
        if stated.filter(period_start__gt=start).exists():
            raise Conflict(f"month: a later one than {start:%Y-%m} is stated already.")
        previous = stated.order_by("-period_start").first()
        lines = month_lines(account, start, end, previous)
        if not lines:
            return None
        opening = previous.facts["closing_micro"] if previous else balance_before(account, start)
        total = sum(line["amount_micro"] for line in lines)
        facts = {
            **_head(party),
            "lines": _named(lines, "rental", rental_names),
            "opening_micro": opening,
            "closing_micro": opening + total,
            "through": posting_last(account),
        }
        period = {"period_start": start, "period_end": end}
        document = _issue(Document.Kind.MONTHLY, party, total, facts, now, **period)
        context = {"label": document.label, "start": start, "total_micro": total, "closing_micro": opening + total}
        url = f"/billing/documents/{document.pk}/"
        notification_send(kind="monthly_statement", context=context, party=party, url=url, now=now)
        return document


def months_due(party: Party, now: datetime) -> list[tuple[date, date]]:
    """The closed months of a customer that may want a statement, oldest first."""
    _start, end = month_closed((now - LATE).date())
    latest = Document.objects.filter(party=party, kind=Document.Kind.MONTHLY).order_by("-period_start").first()
    if latest is not None and latest.period_end is not None:
        return months_between(latest.period_end, end)
    account = Account.objects.filter(owner=party, kind=Account.Kind.CUSTOMER, asset=USDC).first()
    first = first_moved_at(account) if account else None
    return [] if first is None else months_between(first.date(), end)


def months_issue(*, party: Party, now: datetime, rental_names: Names | None = None) -> int:
    """Every statement that is due to a customer, oldest first; returns how many months were stated by now."""
    found = [
        monthly_statement_issue(party=party, start=start, end=end, now=now, rental_names=rental_names)
        for start, end in months_due(party, now)
    ]
    return sum(each is not None for each in found)


def _head(party: Party) -> dict[str, Any]:
    contacts = party_contacts(party)
    name = contacts[0].name if contacts else ""
    return {
        "issuer": {"name": settings.OPERATOR_NAME, "address": settings.OPERATOR_ADDRESS, "url": settings.ORIGIN},
        "addressee": {"name": name or party.handle, "handle": party.handle},
    }


def _named(lines: Sequence[Line], key: str, names: Names | None) -> list[Line]:
    found = names({UUID(line[key]) for line in lines if key in line}) if names else {}
    known = {str(each): name for each, name in found.items()}
    return [line | {"name": known[line[key]]} if line.get(key) in known else line for line in lines]


def _issue(kind: str, party: Party, total_micro: int, facts: dict[str, Any], now: datetime, **subject: Any) -> Document:
    series = f"{SERIES[Document.Kind(kind)]}-{now.year}"
    with transaction.atomic():
        DocumentSeries.objects.bulk_create([DocumentSeries(name=series)], ignore_conflicts=True)
        (row,) = lock_rows(DocumentSeries.objects.all(), [series])
        # Under the lock, so that a twin which waited here finds what the first one issued.
        earlier = Document.objects.filter(kind=kind, party=party, **subject).first()
        if earlier is not None:
            return earlier
        return Document.objects.create(
            kind=kind,
            party=party,
            series=row,
            number=row.last + 1,
            issued_at=now,
            created_at=now,
            total_micro=total_micro,
            facts=facts,
            sha256=facts_hash(facts),
            **subject,
        )

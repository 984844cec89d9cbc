from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from hashlib import sha256
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Q, TextField, Value
from django.db.models.functions import Cast, Concat, LPad

from accounts.models import Party
from billing.documents import File, Sheet, file_of
from billing.models import Deposit, Document, Payout
from billing.periods import day_starts
from core.cursors import cursor_decode, cursor_encode
from core.errors import NotFound

PAGE = 25
RECEIPTS = (Document.Kind.RECEIPT,)
ORDER = Concat("series", Value("-"), LPad(Cast("number", TextField()), 10, Value("0")))
MONTHLY_STATEMENTS = (Document.Kind.MONTHLY,)
PAYOUT_STATEMENTS = (Document.Kind.PAYOUT,)
STATEMENTS = (Document.Kind.MONTHLY, Document.Kind.PAYOUT)


class DocumentDamaged(Exception):
    """The facts in the database are not those that were issued. Nobody gets a file of them."""


def facts_hash(facts: dict[str, Any]) -> bytes:
    """SHA-256 of the facts as canonical JSON: sorted keys, no blanks, UTF-8."""
    return sha256(json.dumps(facts, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()).digest()


def facts_of(document: Document) -> dict[str, Any]:
    """What was issued. Raises DocumentDamaged when the hash says otherwise."""
    if facts_hash(document.facts) != bytes(document.sha256):
        raise DocumentDamaged(f"document {document.label}: its facts do not have the hash it was issued with")
    return dict(document.facts)


def document_of(party: Party, document_id: UUID) -> Document:
    """The party's own document. Raises NotFound, for one that is not theirs too."""
    found = Document.objects.select_related("payout__run").filter(party=party, pk=document_id).first()
    if found is None:
        raise NotFound("There is no such document.")
    return found


def document_file(document: Document, form: str) -> File:
    """The document as ``pdf`` or ``csv``, in the active language. Raises KeyError for a format it does not come in."""
    days = None
    if document.period_start and document.last_day:
        days = (document.period_start.isoformat(), document.last_day.isoformat())
    sheet = Sheet(
        label=document.label,
        kind=document.kind,
        issued_on=document.issued_at.astimezone(UTC).date().isoformat(),
        period=days,
        total_micro=document.total_micro,
        sha256=bytes(document.sha256).hex(),
        facts=facts_of(document),
    )
    return file_of(sheet, form)


def documents_of(
    party: Party, kinds: tuple[str, ...], *, cursor: str = "", limit: int = PAGE
) -> tuple[list[Document], str | None]:
    """A page of a party's documents of these kinds, the newest first, without their facts; and the next page's cursor.

    Raises Invalid (field cursor).
    """
    scope = "billing:documents:" + ",".join(kinds)
    rows = Document.objects.filter(party=party, kind__in=kinds).defer("facts", "sha256")
    if cursor:
        at, key = cursor_decode(cursor, scope=scope)
        moment = datetime.fromisoformat(str(at))
        before = Q(issued_at__lt=moment) | Q(issued_at=moment, order__lt=key)
        rows = rows.annotate(order=ORDER).filter(before)
    # Many are issued at one instant; among them the number decides.
    found: list[Any] = list(rows.annotate(order=ORDER).order_by("-issued_at", "-order")[: limit + 1])
    following = None
    if len(found) > limit:
        last = found[limit - 1]
        following = cursor_encode([last.issued_at.isoformat(), last.order], scope=scope)
    return found[:limit], following


@dataclass(frozen=True, slots=True)
class ReceiptKey:
    """A receipt's id and printed number."""

    id: UUID
    label: str


def receipts_of_transfers(transfers: Sequence[UUID]) -> dict[UUID, ReceiptKey]:
    """{the transfer that credited a deposit: its receipt} of those that have one."""
    of = Q(deposit__transfer__in=transfers) | Q(deposit__claim_transfer__in=transfers)
    rows = Document.objects.filter(of).select_related("deposit").defer("facts", "sha256")
    return {
        row.deposit.claim_transfer_id or row.deposit.transfer_id: ReceiptKey(row.pk, row.label)
        for row in rows
        if row.deposit
    }


def deposits_unreceipted(limit: int) -> list[Deposit]:
    """Credited deposits that have no receipt yet, the oldest first."""
    rows = Deposit.objects.filter(state=Deposit.State.CREDITED, receipt__isnull=True).select_related(
        "party", "transfer", "claim_transfer"
    )
    return list(rows.order_by("created_at", "pk")[:limit])


def payouts_unstated(limit: int) -> list[Payout]:
    """Settled payouts of earnings that have no statement yet, in the order in which they were reserved."""
    rows = Payout.objects.filter(status=Payout.Status.SETTLED, request_key__isnull=True, statement__isnull=True)
    return list(rows.select_related("party", "run").order_by("created_at", "pk")[:limit])


_MOVED = """
SELECT a.owner_id FROM billing_account a
LEFT JOIN LATERAL (
    SELECT (d.facts->>'through')::bigint AS through FROM billing_document d
    WHERE d.party_id = a.owner_id AND d.kind = 'monthly' ORDER BY d.period_start DESC LIMIT 1
) stated ON true
WHERE a.kind = 'customer' AND a.asset = 'USDC' AND a.owner_id IS NOT NULL AND EXISTS (
    SELECT 1 FROM billing_posting p JOIN billing_transfer t ON t.id = p.transfer_id
    WHERE p.account_id = a.id AND t.effective_at < %(end)s AND (
        p.id > coalesce(stated.through, 0)
        OR t.effective_at >= (SELECT max(d.period_end) FROM billing_document d
                              WHERE d.party_id = a.owner_id AND d.kind = 'monthly')::timestamp AT TIME ZONE 'UTC'))
ORDER BY a.owner_id
"""


def customers_unstated(end: date) -> list[UUID]:
    """Whose balance moved before a UTC day in a way that no monthly statement tells yet."""
    with connection.cursor() as cursor:
        cursor.execute(_MOVED, {"end": day_starts(end)})
        return [row[0] for row in cursor.fetchall()]

"""Posting transfers: the one door through which money moves. Raw SQL in batches; every law of the database stays on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from uuid import UUID

from django.db import connection, transaction

from accounts.models import Party
from billing.models import EarningLine, Posting, Transfer
from core.errors import Conflict, DomainError, InsufficientFunds
from core.ids import uuid7

BATCH = 50
"""Transfers per database transaction. Larger ones hold account rows too long: 200 was half as fast (measured)."""


class SourceTaken(Conflict):
    """The source was posted before, by a request that said something else."""

    code = "source_taken"


@dataclass(frozen=True, slots=True)
class Line:
    """One earning line of a transfer; see ``EarningLine``."""

    provider: Party
    gpu_id: UUID
    gpu_model: str
    rental_id: UUID
    amount_micro: int
    matures_at: datetime
    matured_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class TransferInput:
    """A transfer to post. ``legs``: (account id, amount in the asset's unit); accounts in ``floored`` may not fall below
    ``min_balance`` after holds."""

    source: str
    kind: str
    legs: Sequence[tuple[int, int]]
    effective_at: datetime
    lines: Sequence[Line] = ()
    floored: frozenset[int] = field(default_factory=frozenset)

    def request_hash(self) -> bytes:
        """SHA-256 of what is asked for. Times are left out: a retry that comes later asks for the same money."""
        lines = [
            (str(line.provider.pk), str(line.gpu_id), line.gpu_model, str(line.rental_id), line.amount_micro)
            for line in self.lines
        ]
        request = [self.kind, sorted(self.legs), lines]
        return sha256(json.dumps(request, separators=(",", ":")).encode()).digest()


@dataclass(frozen=True, slots=True)
class Posted:
    """What became of one input: the transfer, whether this call wrote it, or why it was refused."""

    source: str
    transfer_id: UUID | None
    created: bool
    refused: DomainError | None = None


_LOCK = """
SELECT id, balance - held - min_balance FROM billing_account WHERE live AND id = ANY(%s) ORDER BY id FOR NO KEY UPDATE
"""
_HEADERS = """
INSERT INTO billing_transfer (id, created_at, source, kind, request_hash, effective_at)
SELECT * FROM unnest(%s::uuid[], %s::timestamptz[], %s::text[], %s::text[], %s::bytea[], %s::timestamptz[])
ON CONFLICT (source) DO NOTHING RETURNING source
"""
_POSTINGS = """
INSERT INTO billing_posting (transfer_id, account_id, amount) SELECT * FROM unnest(%s::uuid[], %s::bigint[], %s::bigint[])
"""


def transfer_post(
    *,
    source: str,
    kind: str,
    legs: Sequence[tuple[int, int]],
    effective_at: datetime,
    now: datetime,
    lines: Sequence[Line] = (),
    floored: frozenset[int] = frozenset(),
) -> Transfer:
    """Post one transfer, in the present transaction if there is one.

    The same source with the same request gives the earlier transfer. Raises SourceTaken (same source, another request)
    and InsufficientFunds (a floored account would fall below its floor); nothing has moved then.
    """
    item = TransferInput(source, kind, legs, effective_at, lines, floored)
    (posted,) = transfers_post_many(items=[item], now=now)
    if posted.transfer_id is None:
        raise posted.refused or AssertionError("an answer is a transfer or a refusal")
    return Transfer.objects.get(pk=posted.transfer_id)


def transfers_post_many(*, items: Sequence[TransferInput], now: datetime) -> list[Posted]:
    """Post a batch of at most 50 transfers in one transaction; one answer per item, in their order.

    A refused item (other request under its source, floor) leaves the others alone. Raises IntegrityError when an item
    breaks a law of the database; then none of the batch is posted.
    """
    if len(items) > BATCH:
        raise ValueError(f"items: found {len(items)}, allowed {BATCH} per batch")
    with transaction.atomic():
        room = _lock_accounts(items)
        answers = _earlier(items)
        fresh: dict[str, TransferInput] = {}
        for item in items:
            if item.source in answers:
                continue
            if item.source in fresh:
                continue
            refusal = _take_room(item, room)
            if refusal is None:
                fresh[item.source] = item
            else:
                answers[item.source] = Posted(item.source, None, False, refusal)
        answers |= _insert(list(fresh.values()), now)
    return [_answer_for(item, answers[item.source], fresh.get(item.source)) for item in items]


def _lock_accounts(items: Sequence[TransferInput]) -> dict[int, int]:
    """Lock the live accounts in id order; returns what each may still give. Others have no row to queue for."""
    ids = sorted({account for item in items for account, _ in item.legs})
    with connection.cursor() as cursor:
        cursor.execute(_LOCK, [ids])
        return dict(cursor.fetchall())


def _take_room(item: TransferInput, room: dict[int, int]) -> DomainError | None:
    for account, amount in item.legs:
        if account in item.floored and amount < 0 and room.get(account, 0) + amount < 0:
            return InsufficientFunds(
                "The balance does not cover this.",
                fields={"amount": f"Found {-amount} micro-USDC; available: {max(room.get(account, 0), 0)}."},
            )
    for account, amount in item.legs:
        if account in room:
            room[account] += amount
    return None


def _earlier(items: Sequence[TransferInput]) -> dict[str, Posted]:
    hashes = {item.source: item.request_hash() for item in items}
    found = Transfer.objects.filter(source__in=hashes).values_list("source", "id", "request_hash")
    return {source: _replay(source, key, bytes(known), hashes[source]) for source, key, known in found}


def _replay(source: str, key: UUID, known: bytes, asked: bytes) -> Posted:
    if known == asked:
        return Posted(source, key, False)
    return Posted(
        source,
        None,
        False,
        SourceTaken(f"{source} was posted before with another content.", fields={"source": f"Found {source}, taken."}),
    )


def _answer_for(item: TransferInput, answer: Posted, posted: TransferInput | None) -> Posted:
    """Two items of one batch may share a source: the second gets what a later call would have got."""
    if answer.transfer_id is None or posted is None or posted is item:
        return answer
    return _replay(item.source, answer.transfer_id, posted.request_hash(), item.request_hash())


def _insert(items: list[TransferInput], now: datetime) -> dict[str, Posted]:
    if not items:
        return {}
    # In source order, so that two batches that share sources never wait for each other in a circle.
    items = sorted(items, key=lambda item: item.source)
    ids = {item.source: uuid7() for item in items}
    with connection.cursor() as cursor:
        cursor.execute(
            _HEADERS,
            [
                [str(ids[item.source]) for item in items],
                [now] * len(items),
                [item.source for item in items],
                [item.kind for item in items],
                [item.request_hash() for item in items],
                [item.effective_at for item in items],
            ],
        )
        written = {row[0] for row in cursor.fetchall()}
        new = [item for item in items if item.source in written]
        legs = [(str(ids[item.source]), account, amount) for item in new for account, amount in item.legs]
        if legs:
            cursor.execute(_POSTINGS, [list(column) for column in zip(*legs, strict=True)])
    _insert_lines(new, ids)
    answers = {item.source: Posted(item.source, ids[item.source], True) for item in new}
    # Somebody else committed the source between our look and our INSERT: theirs is the answer.
    return answers | _earlier([item for item in items if item.source not in written])


def _insert_lines(items: Sequence[TransferInput], ids: dict[str, UUID]) -> None:
    EarningLine.objects.bulk_create(
        EarningLine(
            transfer_id=ids[item.source],
            provider=line.provider,
            gpu_id=line.gpu_id,
            gpu_model=line.gpu_model,
            rental_id=line.rental_id,
            amount_micro=line.amount_micro,
            earned_at=item.effective_at,
            matures_at=line.matures_at,
            matured_at=line.matured_at,
            matured_by_id=None if line.matured_at is None else ids[item.source],
        )
        for item in items
        for line in item.lines
    )


def legs_of(transfer: Transfer) -> list[tuple[int, int]]:
    """The (account id, amount) legs of a posted transfer."""
    return list(Posting.objects.filter(transfer=transfer).order_by("id").values_list("account_id", "amount"))

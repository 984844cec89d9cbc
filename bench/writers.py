"""One writer of the ledger's benchmark: ``python -m bench.writers ours|plain SECONDS``, the parties on standard input."""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from hashlib import sha256
from uuid import UUID

import django
from django.db import connection, transaction

if __name__ == "__main__":
    django.setup()

from accounts.models import Party
from accounts.selectors import party_of
from accounts.services import user_register
from billing.models import Account, Transfer
from billing.services import account_open
from billing.services.ledger.transfers import BATCH, Line, TransferInput, transfers_post_many
from core import clock
from core.ids import uuid7

CHARGE, FEE = 100_000, 10_000
MATURING = timedelta(hours=48)
_HEADERS = """
INSERT INTO bench_transfer (id, created_at, source, kind, request_hash, effective_at, written_in)
SELECT *, 1 FROM unnest(%s::uuid[], %s::timestamptz[], %s::text[], %s::text[], %s::bytea[], %s::timestamptz[])
"""
_POSTINGS = """
INSERT INTO bench_posting (transfer_id, account_id, amount) SELECT * FROM unnest(%s::uuid[], %s::bigint[], %s::bigint[])
"""
_LINES = """
INSERT INTO bench_earningline
    (transfer_id, provider_id, gpu_id, gpu_model, rental_id, amount_micro, earned_at, matures_at)
SELECT * FROM unnest(%s::uuid[], %s::uuid[], %s::uuid[], %s::text[], %s::uuid[], %s::bigint[], %s::timestamptz[],
    %s::timestamptz[])
"""


def make(customers: int, providers: int) -> None:
    """Parties with their accounts, by the services that make real ones; printed as JSON."""
    found: dict[str, list[list[str | int]]] = {"customers": [], "providers": []}
    wanted = ((Account.Kind.CUSTOMER, "customers", customers), (Account.Kind.PROVIDER_PENDING, "providers", providers))
    for kind, name, count in wanted:
        for number in range(count):
            party = party_of(user_register(email=f"{name}-{number}@bench.example", password=None))
            found[name].append([str(party.pk), account_open(kind=kind, owner=party).pk])
    fees = account_open(kind=Account.Kind.PLATFORM_FEE).pk
    sys.stdout.write(json.dumps(found | {"fees": fees}))


class Work:
    """Batches of charges of one GPU-hour's worth each, customers and providers at random."""

    def __init__(self, parties: dict[str, list[list[str | int]]], fees: int) -> None:
        self._customers = [int(account) for _, account in parties["customers"]]
        self._providers = [(Party(pk=UUID(str(pk))), int(account)) for pk, account in parties["providers"]]
        self._fees = fees

    def batch(self, now: datetime) -> list[TransferInput]:
        return [self._charge(now) for _ in range(BATCH)]

    def _charge(self, now: datetime) -> TransferInput:
        provider, pending = random.choice(self._providers)
        legs = [(random.choice(self._customers), -CHARGE), (pending, CHARGE - FEE), (self._fees, FEE)]
        rental = uuid7()
        line = Line(provider, uuid7(), "rtx-4090-24gb", rental, CHARGE - FEE, now + MATURING)
        return TransferInput(f"usage:{rental}:1", Transfer.Kind.USAGE, legs, now, [line])


def ours(items: list[TransferInput], now: datetime) -> None:
    transfers_post_many(items=items, now=now)


def plain(items: list[TransferInput], now: datetime) -> None:
    ids = [str(uuid7()) for _ in items]
    times = [now] * len(items)
    hashes = [sha256(item.source.encode()).digest() for item in items]
    legs = [(key, account, amount) for key, item in zip(ids, items, strict=True) for account, amount in item.legs]
    lines = [
        (
            key,
            str(line.provider.pk),
            str(line.gpu_id),
            line.gpu_model,
            str(line.rental_id),
            line.amount_micro,
            now,
            line.matures_at,
        )
        for key, item in zip(ids, items, strict=True)
        for line in item.lines
    ]
    sources, kinds = [item.source for item in items], [item.kind for item in items]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_HEADERS, [ids, times, sources, kinds, hashes, times])
        cursor.execute(_POSTINGS, [list(column) for column in zip(*legs, strict=True)])
        cursor.execute(_LINES, [list(column) for column in zip(*lines, strict=True)])


def main(kind: str, seconds: float) -> None:
    known = json.loads(sys.stdin.readline())
    work = Work(known, known["fees"])
    write: Callable[[list[TransferInput], datetime], None] = {"ours": ours, "plain": plain}[kind]
    connection.ensure_connection()
    print("ready", flush=True)
    sys.stdin.readline()
    started, written = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        now = clock.now()
        write(work.batch(now), now)
        written += BATCH
    print(json.dumps({"per_second": written / (time.perf_counter() - started)}))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))

"""A hundred thousand running rentals, and what metering does with them every minute; run inside ``manage.py shell``."""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from datetime import datetime, timedelta
from io import StringIO
from typing import TypeVar

from django.db import connection, connections

from accounts.selectors import party_of
from accounts.services import user_register
from bench.machines import make as machines_make
from bench.report import chunks
from billing.models import Account, Hold, Transfer
from billing.selectors.integrity import CHECKS
from billing.services import account_open, transfer_post
from core import clock
from core.ids import uuid7
from core.partitions import partitions_keep
from marketplace import pricing
from marketplace.models import Attempt, Job, Rental, RentalGpu
from marketplace.models.rental import HOLD_PREFIX
from marketplace.services import holds_renew, usage_settle, windows_extend
from providers.models import Gpu, Machine, Provider

CUSTOMERS, PROVIDERS, MACHINES = 1_000, 100, 8
RATE_MICRO = 400_000
Answer = TypeVar("Answer")
QUARTER, MINUTE = timedelta(minutes=15), timedelta(minutes=1)
RENEWED_EACH = 45
"""A hold covers an hour and is renewed at 15 minutes left: of this many, one is due in any minute."""
UPDATE_MINUTES, INSERT_MINUTES = (2, 3, 4, 5, 6), (16, 31, 46)
ROWS = 5_000

# One report per running attempt arrived since the last minute: what the agents' syncs leave behind, not metering's work.
_REPORTED = """
UPDATE marketplace_attempt SET confirmed_at = %(at)s,
    confirmed_elapsed_s = floor(extract(epoch FROM %(at)s::timestamptz - started_at))::bigint
"""
_BARE_UPDATE = (
    "UPDATE bench_usagewindow SET to_seconds = to_seconds + 60, through_at = %(at)s WHERE starts_at = %(quarter)s"
)
_BARE_INSERT = """
INSERT INTO bench_usagewindow (rental_id, starts_at, from_seconds, to_seconds, through_at)
SELECT rental_id, %(quarter)s, to_seconds, to_seconds + 60, %(at)s FROM bench_usagewindow
WHERE starts_at = %(quarter)s::timestamptz - interval '15 minutes'
"""
_BARE_FIRST = """
INSERT INTO bench_usagewindow (rental_id, starts_at, from_seconds, to_seconds, through_at)
SELECT rental_id, starts_at, from_seconds, to_seconds, through_at FROM marketplace_usagewindow
"""


def make(count: int, base: datetime) -> None:
    """``count`` running jobs that began in the quarter of an hour before ``base``, with holds; rows in bulk, accounts by
    the services that open real ones."""
    with redirect_stdout(StringIO()):
        machines_make(MACHINES, 8)
    machine, gpus = Machine.objects.order_by("pk").first(), list(Gpu.objects.all())
    model = gpus[0].model
    if machine is None or model is None:
        raise AssertionError("machines were made just now, of a known model")
    providers, customers = _providers(), _customers(count, base)
    job_fields = {"image": "bench", "gpu_count": 1, "max_rate_micro": RATE_MICRO, "disk_gb": 10, "status": "active"}
    limits = {"time_limit_s": 30 * 86_400, "disconnect_grace_s": 600, "max_attempts": 1, "queued_at": base}
    hold = pricing.hold_micro(rate_micro=RATE_MICRO, gpus=1)
    for numbers in chunks(range(count), ROWS):
        jobs = [Job(customer=customers[n % CUSTOMERS].owner, gpu_model=model, **job_fields, **limits) for n in numbers]
        began = [base - timedelta(seconds=random.randrange(1, 900)) for _ in numbers]
        attempts = [
            Attempt(
                job=job, number=1, machine=machine, provider=machine.provider, status="running", token_hash=b"t" * 32
            )
            for job in jobs
        ]
        rentals = []
        for n, attempt, at in zip(numbers, attempts, began, strict=True):
            attempt.started_at = at
            rental = Rental(attempt=attempt, gpus=1, rate_micro=RATE_MICRO, fee_bps=1_000, started_at=at)
            rental.customer_id, rental.provider = attempt.job.customer_id, providers[n % PROVIDERS]
            rental.gpu_model = model
            # A renewal is due for one in so many; the others are covered for as long as this takes.
            rental.covered_micro = 3 * hold if n % RENEWED_EACH else hold
            rentals.append(rental)
        Job.objects.bulk_create(jobs)
        Attempt.objects.bulk_create(attempts)
        Rental.objects.bulk_create(rentals)
        RentalGpu.objects.bulk_create(
            RentalGpu(rental=rental, gpu=gpus[n % len(gpus)]) for n, rental in zip(numbers, rentals, strict=True)
        )
        Hold.objects.bulk_create(
            Hold(
                source=f"{HOLD_PREFIX}{rental.pk}",
                account=customers[n % CUSTOMERS],
                placed_micro=hold,
                amount_micro=hold,
            )
            for n, rental in zip(numbers, rentals, strict=True)
        )
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE billing_account a SET held = h.total FROM (SELECT account_id, sum(amount_micro) AS total"
            " FROM billing_hold GROUP BY account_id) h WHERE h.account_id = a.id"
        )


def _providers() -> list[Provider]:
    """As many as post differs: each has its pending account. All share the approved application of the first."""
    first = Provider.objects.get()
    shared = {name: getattr(first, name) for name in ("application", "tier", "country", "region", "approved_machines")}
    made = [first]
    for number in range(1, PROVIDERS):
        party = party_of(user_register(email=f"provider-{number}@bench.example", password=None))
        made.append(Provider.objects.create(party=party, joined_at=first.joined_at, **shared))
    return made


def _customers(jobs: int, now: datetime) -> list[Account]:
    clearing = account_open(kind=Account.Kind.DEPOSITS_CLEARING)
    each = (jobs // CUSTOMERS + 1) * RATE_MICRO * 100
    made = []
    for number in range(CUSTOMERS):
        party = party_of(user_register(email=f"customer-{number}@bench.example", password=None))
        account = account_open(kind=Account.Kind.CUSTOMER, owner=party)
        legs = [(clearing.pk, -each), (account.pk, each)]
        transfer_post(
            source=f"deposit:bench:{uuid7()}", kind=Transfer.Kind.DEPOSIT, legs=legs, effective_at=now, now=now
        )
        made.append(account)
    return made


def measure(count: int) -> None:
    """Make them, meter them minute by minute beside the bare statements, post them; prints what it found as JSON."""
    now = clock.now()
    base = now.replace(minute=now.minute // 15 * 15, second=0, microsecond=0) - 5 * QUARTER
    partitions_keep(now=now)
    make(count, base)
    _tidy()
    _ours(base + MINUTE, count)
    with connection.cursor() as cursor:
        cursor.execute(_BARE_FIRST)
    _tidy()
    updates = [_round(base + minute * MINUTE, count, _BARE_UPDATE) for minute in UPDATE_MINUTES]
    inserts = [_round(base + minute * MINUTE, count, _BARE_INSERT) for minute in INSERT_MINUTES]
    at = base + (INSERT_MINUTES[-1] + 1) * MINUTE
    renewed, renewing = _timed(lambda: holds_renew(now=at))
    posted, posting = _timed(lambda: usage_settle(now=at))
    found = {
        "updates": updates,
        "inserts": inserts,
        "renewed": renewed,
        "renewing_seconds": renewing,
        "posted": posted,
        "posting_seconds": posting,
        "sound": [finding for check in CHECKS.values() for finding in check()],
    }
    sys.stdout.write(json.dumps(found))


def _round(at: datetime, count: int, bare: str) -> dict[str, float]:
    """The same number of rows twice: by metering, and by a statement that asks nobody for evidence."""
    quarter = at - (at - datetime.min.replace(tzinfo=at.tzinfo)) % QUARTER
    ours = _ours(at, count)
    with connection.cursor() as cursor:
        rows, baseline = _timed(lambda: cursor.execute(bare, {"at": at, "quarter": quarter}) and cursor.rowcount)
    if rows not in (None, count):
        raise AssertionError(f"the baseline wrote {rows} rows, not {count}")
    _tidy()
    return {"ours": ours, "baseline": baseline}


def _ours(at: datetime, count: int) -> float:
    with connection.cursor() as cursor:
        cursor.execute(_REPORTED, {"at": at})
    moved, seconds = _timed(windows_extend)
    if moved != count:
        raise AssertionError(f"metering moved {moved} windows, not {count}")
    return seconds


def _timed(work: Callable[[], Answer]) -> tuple[Answer, float]:
    began = time.perf_counter()
    answer = work()
    return answer, time.perf_counter() - began


def _tidy() -> None:
    """What autovacuum does in between: it is switched off here, so that it cannot fall into one side's seconds."""
    with connections["owner"].cursor() as cursor:
        tables = ("marketplace_usagewindow", "marketplace_attempt", "marketplace_rental", "bench_usagewindow")
        for table in (*tables, "billing_hold", "billing_account"):
            cursor.execute(f"VACUUM ANALYZE {table}")

"""Every minute, of customers whose jobs run: does the money last, does the spend limit hold? Mails go out in time to act.

What is spent: the ledger's charges, and what accrues and is not posted yet. Lock order: advisory names, then as in stopping.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import structlog
from django.db import DatabaseError, connection, transaction

from accounts.models import Party
from accounts.services import notification_send
from billing.selectors import Spending, balances_of, spendings_limited
from billing.services import spend_notice_take
from core.errors import DomainError
from core.money import SECONDS_PER_HOUR, format_usdc
from core.states import SYSTEM
from marketplace import pricing
from marketplace.models import LowBalance, Rental
from marketplace.services.stopping import attempt_stop_by_id

log = structlog.get_logger(__name__)

LOW_BALANCE_SECONDS = 4 * SECONDS_PER_HOUR
"""Long enough to read a mail and pay in before a night shift's end; short enough that a balance for one job is no news."""
RISEN = (5, 4)
"""A balance counts as risen a quarter above the mark, so that one that stays around it is told once."""
NEAR_PERCENT = 80
REACHED_PERCENT = 100

# One row per customer with an open rental. A second costs rate · gpus / 3600; what is ahead ends with the job's time limit.
_RUNNING = """
SELECT open.customer_id,
    sum(open.price * open.ran / 3600 - open.charged_micro)::bigint,
    coalesce(sum(open.price) FILTER (WHERE open.runs), 0)::bigint,
    count(*) FILTER (WHERE open.runs),
    coalesce(sum(open.price * least(%(low)s, open.rest) / 3600) FILTER (WHERE open.runs), 0)::bigint,
    coalesce(sum(open.price * least(%(stop)s, open.rest) / 3600) FILTER (WHERE open.runs), 0)::bigint
FROM (
    SELECT rental.customer_id, rental.charged_micro, rental.rate_micro * rental.gpus AS price, ran.seconds AS ran,
        greatest(0, job.time_limit_s - ran.seconds) AS rest,
        attempt.stop_requested_at IS NULL AND rental.ended_at IS NULL AS runs
    FROM marketplace_rental rental
    JOIN marketplace_attempt attempt ON attempt.id = rental.attempt_id
    JOIN marketplace_job job ON job.id = attempt.job_id
    CROSS JOIN LATERAL (SELECT greatest(0, floor(extract(epoch FROM
        least(%(now)s, attempt.stop_requested_at, rental.ended_at) - rental.started_at)))::bigint AS seconds) ran
    WHERE rental.settled_at IS NULL AND rental.started_at IS NOT NULL
) open
GROUP BY open.customer_id ORDER BY open.customer_id
"""
_FELL = """
INSERT INTO marketplace_lowbalance (customer_id, told_at) VALUES (%s, %s) ON CONFLICT (customer_id) DO NOTHING
"""


@dataclass(frozen=True, slots=True)
class Running:
    """What one customer's open rentals come to, in micro-USDC. ``accrued``: used and not posted yet. ``rate``: per hour now.

    ``low`` and ``stop``: what the running jobs will cost within LOW_BALANCE_SECONDS, and until a stop is through.
    """

    customer_id: UUID
    accrued_micro: int
    rate_micro: int
    jobs: int
    low_micro: int
    stop_micro: int


def customers_watch(*, now: datetime) -> int:
    """Tell whose balance runs low, tell and stop whose spend limit is reached; returns how many mails that were.

    May run twice, late or beside its twin: every mail is sent once. One customer's trouble keeps nobody else from it.
    """
    with connection.cursor() as cursor:
        cursor.execute(_RUNNING, {"now": now, "low": LOW_BALANCE_SECONDS, "stop": pricing.HOLD_RENEW_SECONDS})
        running = [Running(*row) for row in cursor.fetchall()]
    ids = [each.customer_id for each in running]
    balances, limited = balances_of(ids), spendings_limited(ids, now)
    told = 0
    for each in running:
        try:
            told += _balance_watch(each, balances.get(each.customer_id, 0), now)
            told += sum(_limit_watch(each, found, now) for found in limited.get(each.customer_id, []))
        except (DatabaseError, DomainError):
            log.exception("customer_not_watched", customer=str(each.customer_id))
    return told


def _balance_watch(running: Running, balance_micro: int, now: datetime) -> bool:
    if running.rate_micro == 0:
        return False
    left = balance_micro - running.accrued_micro
    if left >= running.low_micro:
        if left * RISEN[1] >= running.low_micro * RISEN[0]:
            LowBalance.objects.filter(customer=running.customer_id).delete()
        return False
    with transaction.atomic():
        if not _fell(running.customer_id, now):
            return False
        seconds = max(0, left) * SECONDS_PER_HOUR // running.rate_micro
        context = {
            "left": format_usdc(left),
            "rate": format_usdc(running.rate_micro),
            "jobs": running.jobs,
            "lasts_s": seconds,
            "until": now + timedelta(seconds=seconds),
            "stop_minutes": pricing.HOLD_RENEW_SECONDS // 60,
        }
        customer = Party.objects.get(pk=running.customer_id)
        notification_send(party=customer, kind="low_balance", context=context, url="/billing/#deposit", now=now)
    return True


def _fell(customer_id: UUID, now: datetime) -> bool:
    """True once per fall: a twin that tells at this moment makes us wait here, and is first."""
    with connection.cursor() as cursor:
        cursor.execute(_FELL, [customer_id, now])
        return cursor.rowcount == 1


def _limit_watch(running: Running, found: Spending, now: datetime) -> bool:
    """Tell at 80 %; where the jobs would run over the limit before a stop is through, stop the youngest until they do not."""
    amount = found.limit_micro
    if amount is None:
        return False
    customer = Party.objects.get(pk=running.customer_id)
    spent = found.spent_micro + running.accrued_micro
    over = spent + running.stop_micro - amount
    if over > 0 and running.jobs:
        _stop_youngest(running.customer_id, over, now)
    if over > 0 or spent >= amount:
        return spend_limit_tell(customer=customer, of=found, percent=REACHED_PERCENT, spent_micro=spent, now=now)
    if spent * 100 >= amount * NEAR_PERCENT:
        return spend_limit_tell(customer=customer, of=found, percent=NEAR_PERCENT, spent_micro=spent, now=now)
    return False


def _stop_youngest(customer_id: UUID, over_micro: int, now: datetime) -> None:
    """Order stops until what is ahead of the others fits. It happens where a limit was lowered: else holds see to it before."""
    rows = Rental.objects.filter(customer=customer_id, ended_at__isnull=True, started_at__isnull=False)
    for rental in rows.filter(attempt__stop_requested_at__isnull=True).select_related("attempt__job").order_by("-pk"):
        if over_micro <= 0:
            return
        assert rental.started_at is not None  # filtered
        rest = max(0, rental.attempt.job.time_limit_s - int((now - rental.started_at).total_seconds()))
        seconds = min(pricing.HOLD_RENEW_SECONDS, rest)
        over_micro -= rental.rate_micro * rental.gpus * seconds // SECONDS_PER_HOUR
        attempt_stop_by_id(attempt_id=rental.attempt_id, reason="spend_limit", actor=SYSTEM, now=now)


def spend_limit_tell(*, customer: Party, of: Spending, percent: int, spent_micro: int, now: datetime) -> bool:
    """Write to the customer, once per period, that a limit is nearly (80) or all (100) spent. False: they were told before."""
    with transaction.atomic():
        if not spend_notice_take(spending=of, percent=percent, now=now):
            return False
        context = {
            "period": of.period.label,
            "limit": format_usdc(of.limit_micro or 0),
            "spent": format_usdc(spent_micro),
        }
        kind = "spend_limit_near" if percent < REACHED_PERCENT else "spend_limit_reached"
        notification_send(party=customer, kind=kind, context=context, url="/billing/#limits", now=now)
    return True

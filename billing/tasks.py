from __future__ import annotations

from uuid import UUID

from celery import shared_task

from billing import services
from core import clock
from core.slots import slot_claim


@shared_task(name="billing.earnings_mature")
def earnings_mature() -> int:
    return services.earnings_mature(now=clock.now())


@shared_task(name="billing.deposits_read")
def deposits_read() -> int:
    return services.deposits_read(now=clock.now())


@shared_task(name="billing.foreign_payments_read")
def foreign_payments_read() -> int:
    return services.foreign_payments_read(now=clock.now())


@shared_task(name="billing.receipts_issue")
def receipts_issue() -> int:
    return services.receipts_issue(now=clock.now())


@shared_task(name="billing.payouts_run")
def payouts_run() -> None:
    """Plan whatever run is due (Mondays, first business days). A crash after the claim is mended in the next hour's slot."""
    now = clock.now()
    if slot_claim("billing.payouts_run", now.strftime("%Y-%m-%dT%H"), now=now):
        services.payouts_run(as_of=now.date(), now=now)


@shared_task(name="billing.bank_runs_plan")
def bank_runs_plan() -> None:
    """A euro rate was confirmed: plan what waited for it, without waiting for the next hour."""
    now = clock.now()
    services.payouts_run(as_of=now.date(), now=now)


@shared_task(name="billing.payout_run_start")
def payout_run_start(run_id: str) -> None:
    services.payout_run_start(run_id=UUID(run_id), now=clock.now())


@shared_task(name="billing.payout_submit")
def payout_submit(payout_id: str) -> str:
    return services.payout_advance(payout_id=UUID(payout_id), now=clock.now())


@shared_task(name="billing.payouts_sweep")
def payouts_sweep() -> int:
    return services.payouts_sweep(now=clock.now())


@shared_task(name="billing.runs_alert")
def runs_alert() -> int:
    return services.runs_alert(now=clock.now())


@shared_task(name="billing.treasury_read")
def treasury_read() -> int:
    return services.treasury_read(now=clock.now())


@shared_task(name="billing.books_check")
def books_check() -> str | None:
    """The verifier's say over payouts: what it finds freezes them."""
    return services.books_check(now=clock.now())


@shared_task(name="billing.checkpoints_take")
def checkpoints_take() -> int:
    return services.checkpoints_take(now=clock.now())

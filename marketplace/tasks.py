from __future__ import annotations

from uuid import UUID

from celery import shared_task

from core import clock
from core.slots import slot_claim
from marketplace import services


@shared_task(name="marketplace.jobs_place")
def jobs_place() -> int:
    return services.jobs_place(now=clock.now())


@shared_task(name="marketplace.rental_settle")
def rental_settle(rental_id: str) -> bool:
    return services.rental_settle(rental_id=UUID(rental_id), now=clock.now())


@shared_task(name="marketplace.attempts_sweep")
def attempts_sweep() -> int:
    now = clock.now()
    return services.attempts_sweep(now=now) + services.queue_sweep(now=now)


@shared_task(name="marketplace.windows_close")
def windows_close() -> int:
    return services.windows_close(now=clock.now())


@shared_task(name="marketplace.customers_watch")
def customers_watch() -> int:
    return services.customers_watch(now=clock.now())


@shared_task(name="marketplace.usage_settle")
def usage_settle() -> int:
    return services.usage_settle(now=clock.now())


@shared_task(name="marketplace.rentals_settle_ended")
def rentals_settle_ended() -> int:
    """Rentals whose own job got lost: ended, not settled."""
    return services.rentals_settle_ended(now=clock.now())


@shared_task(name="marketplace.listings_recheck")
def listings_recheck() -> int:
    return services.listings_recheck(now=clock.now())


@shared_task(name="marketplace.listings_rank")
def listings_rank() -> int:
    return services.listings_rank(now=clock.now())


@shared_task(name="marketplace.payout_statements_issue")
def payout_statements_issue() -> int:
    return services.payout_statements_issue(now=clock.now())


@shared_task(name="marketplace.monthly_statements_issue")
def monthly_statements_issue() -> int:
    """What is due, every hour: a crash in the middle is mended by the next slot, and what is issued stays issued."""
    now = clock.now()
    if not slot_claim("marketplace.monthly_statements_issue", now.strftime("%Y-%m-%dT%H"), now=now):
        return 0
    return services.monthly_statements_issue(now=now)

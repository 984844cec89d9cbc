from __future__ import annotations

from celery import shared_task

from core import clock, invariants, news, partitions


@shared_task(name="core.news_deliver")
def news_deliver() -> int:
    return news.deliver()


@shared_task(name="core.invariants_check")
def invariants_check() -> int:
    found = invariants.check_all()
    invariants.result_keep(found, now=clock.now())
    return len(found)


@shared_task(name="core.partitions_keep")
def partitions_keep() -> dict[str, int]:
    return partitions.partitions_keep(now=clock.now())

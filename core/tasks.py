from __future__ import annotations

from celery import shared_task

from core import clock, invariants, news, partitions


@shared_task(name="core.news_deliver", queue="default")
def news_deliver() -> int:
    return news.deliver()


@shared_task(name="core.invariants_check", queue="sweep")
def invariants_check() -> int:
    found = invariants.check_all()
    invariants.result_keep(found, now=clock.now())
    return len(found)


@shared_task(name="core.partitions_keep", queue="sweep")
def partitions_keep() -> dict[str, int]:
    return partitions.partitions_keep(now=clock.now())

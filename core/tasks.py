from __future__ import annotations

from celery import shared_task

from core import invariants, news


@shared_task(name="core.news_deliver", queue="default")
def news_deliver() -> int:
    return news.deliver()


@shared_task(name="core.invariants_check", queue="sweep")
def invariants_check() -> int:
    return len(invariants.check_all())

"""Score results that arrive late, from several workers at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from django.db import connection

from accounts.models import User
from reliability.models import Score
from reliability.services.scores import Figures, scores_store
from tests.factories.benchmarks import provider_made

T0 = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
ORDER = [3, 9, 1, 12, 7, 11, 2, 5]


def test_results_arriving_in_any_order_end_in_the_newest(committed_db: str, ada: User) -> None:
    provider = provider_made(ada, now=T0)

    def store(hour: int) -> int:
        figures = Figures("provider", provider.pk, provider.pk, Decimal(hour), Decimal(100), None, Decimal(hour), hour)
        try:
            return scores_store([figures], computed_at=T0 + hour * HOUR)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(store, ORDER))
    found = Score.objects.get()
    assert (found.s, found.computed_at) == (12, T0 + 12 * HOUR)


def test_control_a_plain_save_ends_in_whichever_came_last(committed_db: str, ada: User) -> None:
    provider = provider_made(ada, now=T0)
    for hour in ORDER:
        Score.objects.update_or_create(
            subject_kind="provider",
            subject_id=provider.pk,
            defaults={
                "provider": provider,
                "c": 100,
                "s": hour,
                "evidence_seconds": hour,
                "formula_version": 1,
                "computed_at": T0 + hour * HOUR,
            },
        )
    assert Score.objects.get().s == ORDER[-1] != max(ORDER)

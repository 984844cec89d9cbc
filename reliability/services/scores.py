"""Scores recomputed from stored events: the same events give the same number, and an older answer never replaces a newer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from core import news
from providers.models import Provider
from reliability.models.score import Subject
from reliability.scoring import FORMULA_VERSION, Parts, score
from reliability.selectors.evidence import evidence_of

BATCH = 200
ANNOUNCED_STEP = Decimal("0.05")
"""Others (listings, ranks) hear of a score when it differs by this much from what they were told last."""
_STEP = Decimal("0.001")


@dataclass(frozen=True)
class Figures:
    """A score as it is stored: out of 100, three decimals; None is "not known yet"."""

    subject_kind: str
    subject_id: UUID
    provider_id: UUID
    u: Decimal | None
    c: Decimal
    b: Decimal | None
    s: Decimal | None
    evidence_seconds: int


def _stored(points: float) -> Decimal:
    return Decimal(repr(points)).quantize(_STEP, rounding=ROUND_HALF_EVEN)


def figures_of(parts: Parts, *, subject_kind: str, subject_id: UUID, provider_id: UUID) -> Figures:
    return Figures(
        subject_kind,
        subject_id,
        provider_id,
        u=None if parts.uptime is None else _stored(100 * parts.uptime),
        c=_stored(100 * parts.completion),
        b=None if parts.consistency is None else _stored(100 * parts.consistency),
        s=None if parts.score is None else _stored(parts.score),
        evidence_seconds=parts.evidence_seconds,
    )


def scores_recompute(*, now: datetime, provider_ids: Iterable[UUID] | None = None) -> int:
    """Compute the score of providers (default: all that are not closed) and of their machines as of ``now``.

    Returns how many scores were written. Late, repeated and concurrent runs are harmless.
    """
    if provider_ids is None:
        chosen = list(Provider.objects.exclude(status="closed").order_by("pk").values_list("pk", flat=True))
    else:
        chosen = sorted(provider_ids)
    written = 0
    for number in range(0, len(chosen), BATCH):
        written += scores_store(scores_compute(chosen[number : number + BATCH], as_of=now), computed_at=now)
    return written


def scores_compute(provider_ids: Sequence[UUID], *, as_of: datetime) -> list[Figures]:
    """The figures of providers and of each of their machines, from stored events alone."""
    found = []
    for provider_id, evidence in evidence_of(provider_ids, as_of=as_of).items():
        found.append(
            figures_of(score(evidence), subject_kind=Subject.PROVIDER, subject_id=provider_id, provider_id=provider_id)
        )
        for machine_id in sorted({gpu.machine_id for gpu in evidence.gpus}):
            parts = score(evidence.of_machine(machine_id))
            found.append(
                figures_of(parts, subject_kind=Subject.MACHINE, subject_id=machine_id, provider_id=provider_id)
            )
    return found


_ROWS = """
FROM unnest(%(kinds)s::text[], %(subjects)s::uuid[], %(providers)s::uuid[], %(u)s::numeric[], %(c)s::numeric[],
            %(b)s::numeric[], %(s)s::numeric[], %(evidence)s::bigint[])
    AS row (kind, subject, provider, u, c, b, s, evidence)
ORDER BY row.kind, row.subject
"""

_STORE = f"""
INSERT INTO reliability_score AS score
    (subject_kind, subject_id, provider_id, u, c, b, s, evidence_seconds, formula_version, computed_at, announced_s)
SELECT row.kind, row.subject, row.provider, row.u, row.c, row.b, row.s, row.evidence, %(formula)s, %(at)s, row.s
{_ROWS}
ON CONFLICT (subject_kind, subject_id) DO UPDATE SET
    u = EXCLUDED.u, c = EXCLUDED.c, b = EXCLUDED.b, s = EXCLUDED.s, provider_id = EXCLUDED.provider_id,
    evidence_seconds = EXCLUDED.evidence_seconds, formula_version = EXCLUDED.formula_version,
    computed_at = EXCLUDED.computed_at,
    announced_s = CASE
        WHEN score.announced_s IS NOT NULL AND EXCLUDED.s IS NOT NULL AND abs(EXCLUDED.s - score.announced_s) < %(step)s
        THEN score.announced_s ELSE EXCLUDED.s END
WHERE score.computed_at < EXCLUDED.computed_at
RETURNING new.provider_id, old.announced_s IS DISTINCT FROM new.announced_s
"""

_DAY = f"""
INSERT INTO reliability_scoreday AS day (subject_kind, subject_id, day, u, c, b, s, computed_at)
SELECT row.kind, row.subject, %(day)s, row.u, row.c, row.b, row.s, %(at)s
{_ROWS}
ON CONFLICT (subject_kind, subject_id, day) DO UPDATE SET
    u = EXCLUDED.u, c = EXCLUDED.c, b = EXCLUDED.b, s = EXCLUDED.s, computed_at = EXCLUDED.computed_at
WHERE day.computed_at < EXCLUDED.computed_at
"""


def scores_store(figures: Sequence[Figures], *, computed_at: datetime) -> int:
    """Write scores where they are newer than what stands there, and tell who listens about notable changes."""
    if not figures:
        return 0
    arguments: dict[str, Any] = {
        "kinds": [row.subject_kind for row in figures],
        "subjects": [str(row.subject_id) for row in figures],
        "providers": [str(row.provider_id) for row in figures],
        "u": [row.u for row in figures],
        "c": [row.c for row in figures],
        "b": [row.b for row in figures],
        "s": [row.s for row in figures],
        "evidence": [row.evidence_seconds for row in figures],
        "formula": FORMULA_VERSION,
        "at": computed_at,
        "day": computed_at.date(),
        "step": ANNOUNCED_STEP,
    }
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_STORE, arguments)
        rows = cursor.fetchall()
        cursor.execute(_DAY, arguments)
        changed = sorted({provider_id for provider_id, notable in rows if notable})
        news.publish_many("provider.score", changed, now=computed_at)
    return len(rows)

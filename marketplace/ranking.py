"""The public rank formula, factor by factor. Pure and exact (decimals), so that everybody computes the same.

    rank = (S / 100)² × clamp(median ÷ price, 0.5, 1.5) × commitment × confidence

S is the reliability score (0 to 100). Tier is no factor: enterprise supply is shown above, labelled, never ranked up.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import ROUND_DOWN, Decimal
from hashlib import sha256
from uuid import UUID

SCORE_UNKNOWN = Decimal(100)
"""A provider without evidence is not punished by S; the confidence factor holds it back."""
PRICE_MIN, PRICE_MAX = Decimal("0.5"), Decimal("1.5")
COMMITMENT = {0: Decimal(1), 3: Decimal("1.02"), 6: Decimal("1.04"), 12: Decimal("1.06")}
CONFIDENCE_MIN = Decimal("0.7")
CONFIDENCE_HOURS = 168
"""A week of declared hours is enough to believe a score."""

STEPS = 10_000
TIES = 1_000
"""A rank is stored as ``value in 1/10,000`` × 1,000 + a tie-breaker of the day, one integer that indexes can sort."""
MOVE_PERCENT = 1
"""Smaller moves are not written: re-ranking a million rows for noise costs more than it says."""


@dataclass(frozen=True)
class Factors:
    """Each factor of one listing's rank; ``median_micro`` is what the price was held against (None: nothing to compare)."""

    reliability: Decimal
    price: Decimal
    commitment: Decimal
    confidence: Decimal
    median_micro: int | None

    @property
    def value(self) -> Decimal:
        return self.reliability * self.price * self.commitment * self.confidence

    @property
    def steps(self) -> int:
        return int((self.value * STEPS).to_integral_value(ROUND_DOWN))


def factors(
    *,
    score: Decimal | None,
    rate_micro: int,
    median_micro: int | None,
    commitment_months: int,
    evidence_hours: int | None,
) -> Factors:
    """The factors of a listing. ``rate_micro`` is positive; unknown score and evidence are None, not 0."""
    share = (SCORE_UNKNOWN if score is None else score) / 100
    price = Decimal(1)
    if median_micro is not None:
        price = min(PRICE_MAX, max(PRICE_MIN, Decimal(median_micro) / rate_micro))
    seen = Decimal(min(evidence_hours or 0, CONFIDENCE_HOURS)) / CONFIDENCE_HOURS
    return Factors(
        reliability=share * share,
        price=price,
        commitment=COMMITMENT.get(commitment_months, Decimal(1)),
        confidence=CONFIDENCE_MIN + (1 - CONFIDENCE_MIN) * seen,
        median_micro=median_micro,
    )


def tie(listing_id: UUID, day: date) -> int:
    """0 to 999, another one each day: equal listings take turns."""
    return int.from_bytes(sha256(f"{day.isoformat()}:{listing_id}".encode()).digest()[:4], "big") % TIES


def stored(steps: int, listing_id: UUID, day: date) -> int:
    """The integer that is stored and sorted by."""
    return steps * TIES + tie(listing_id, day)


def steps_of(rank: int) -> int:
    return rank // TIES


def moved(old_rank: int, new_steps: int) -> bool:
    """Whether a rank moved by at least one percent."""
    old = steps_of(old_rank)
    return abs(new_steps - old) * 100 >= max(old, 1) * MOVE_PERCENT

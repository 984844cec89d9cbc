"""Rates, medians and what is held for a job. Pure; micro-USDC per GPU-hour, integers only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from core.errors import Invalid
from core.money import MICRO, SECONDS_PER_HOUR, charge_micro, format_usdc

RATE_MIN_MICRO = 100
RATE_MAX_MICRO = 1_000 * MICRO
"""0.0001 to 1,000 USDC: technical bounds that catch slips of the keyboard, not a price policy."""

HOLD_SECONDS = SECONDS_PER_HOUR
HOLD_RENEW_SECONDS = 15 * 60
"""A hold covers an hour and is renewed with a quarter left: four chances to settle, and time to stop (10 min) if refused."""
CREDIT_SECONDS = 4 * SECONDS_PER_HOUR
"""At most the last four hours of an attempt are credited when the provider's fault ended it."""
MEDIAN_PROVIDERS_MIN = 5
"""Under five voices a median would tell one provider another's price."""


def rate_check(rate_micro: int, *, field: str = "rate") -> int:
    """The rate if it is within bounds. Raises Invalid naming ``field``, what was found and what is allowed."""
    if not RATE_MIN_MICRO <= rate_micro <= RATE_MAX_MICRO:
        found = format_usdc(rate_micro, places=0)
        raise Invalid.field(field, found=found, allowed="0.0001 to 1,000 USDC per GPU-hour")
    return rate_micro


def hold_micro(*, rate_micro: int, gpus: int, seconds: int = HOLD_SECONDS) -> int:
    """What is held for ``seconds`` of ``gpus`` GPUs, rounded up: a hold never covers less than it says."""
    return -(-rate_micro * gpus * seconds // SECONDS_PER_HOUR)


def credit_from(*, billed_seconds: int) -> int:
    """The billed second from which on a provider's fault gives the time back."""
    return max(0, billed_seconds - CREDIT_SECONDS)


def credit_micro(*, rate_micro: int, gpus: int, billed_seconds: int) -> int:
    """The part of a charge for ``billed_seconds`` that pays the last four hours (or all of it, if shorter)."""
    kept = credit_from(billed_seconds=billed_seconds)
    whole = charge_micro(rate_micro=rate_micro, gpus=gpus, seconds=billed_seconds)
    return whole - charge_micro(rate_micro=rate_micro, gpus=gpus, seconds=kept)


@dataclass(frozen=True)
class Quartiles:
    """Asking prices of one SKU somewhere: quartiles over providers, one vote each."""

    p25_micro: int
    median_micro: int
    p75_micro: int
    providers: int


def _between(ordered: Sequence[int], numerator: int, denominator: int) -> int:
    """The quantile ``numerator / denominator`` of sorted integers, interpolated and floored."""
    place = (len(ordered) - 1) * numerator
    index, part = divmod(place, denominator)
    if part == 0:
        return ordered[index]
    return ordered[index] + (ordered[index + 1] - ordered[index]) * part // denominator


def quartiles(asks: Iterable[tuple[UUID, int]]) -> Quartiles | None:
    """Quartiles of (provider, rate) pairs; a provider with many rates votes once, with its own median.

    None under five providers.
    """
    by_provider: dict[UUID, list[int]] = {}
    for provider, rate in asks:
        by_provider.setdefault(provider, []).append(rate)
    if len(by_provider) < MEDIAN_PROVIDERS_MIN:
        return None
    votes = sorted(_between(sorted(rates), 1, 2) for rates in by_provider.values())
    return Quartiles(_between(votes, 1, 4), _between(votes, 1, 2), _between(votes, 3, 4), len(votes))


WORLD = ""
"""The region of a figure that covers all regions."""


def nearest(found: Mapping[str, Quartiles], region: str) -> tuple[str, Quartiles] | None:
    """The region's figure, else the world's, else nothing."""
    for place in (region, WORLD):
        if place in found:
            return place, found[place]
    return None

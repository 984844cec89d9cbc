"""Money is an integer of micro-USDC (10⁻⁶ USDC, the token's own smallest unit). No floats, anywhere.

A rate is micro-USDC per GPU-hour. Amounts are named ``*_micro``.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

from core.errors import Invalid

MICRO = 1_000_000
DECIMALS = 6
SECONDS_PER_HOUR = 3600
CENT_MICRO = 10_000


def charge_micro(*, rate_micro: int, gpus: int, seconds: int) -> int:
    """What ``seconds`` of ``gpus`` GPUs cost in all since the segment began, floored to a micro-USDC.

    Charge cumulatively (this minus what was charged before): rounding every tick by itself drifts away from the truth.
    """
    if min(rate_micro, gpus, seconds) < 0:
        raise ValueError("rate, GPUs and seconds are never negative")
    return rate_micro * gpus * seconds // SECONDS_PER_HOUR


def split_micro(total_micro: int, weights: Sequence[int]) -> list[int]:
    """Split an amount in proportion to integer weights by largest remainder: the parts add up exactly.

    Equal remainders go to the earlier part, so the split is the same whenever it is recomputed.
    """
    if total_micro < 0 or not weights or min(weights) < 0 or sum(weights) == 0:
        raise ValueError("a split needs an amount >= 0 and weights >= 0 that are not all zero")
    whole = sum(weights)
    parts = [total_micro * weight // whole for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda i: (-(total_micro * weights[i] % whole), i))
    for index in by_remainder[: total_micro - sum(parts)]:
        parts[index] += 1
    return parts


def parse_usdc(text: str, *, field: str = "amount") -> int:
    """A person's decimal text, such as ``0.38``, as micro-USDC. More than six decimals are refused, not rounded."""
    allowed = "a decimal number with at most 6 decimals, such as 0.38"
    try:
        value = Decimal(text.strip())
    except InvalidOperation:
        raise Invalid.field(field, found=text, allowed=allowed) from None
    if not value.is_finite() or abs(value) >= Decimal(10) ** 12:
        raise Invalid.field(field, found=text, allowed=allowed)
    scaled = value * MICRO
    if scaled != scaled.to_integral_value():
        raise Invalid.field(field, found=text, allowed=allowed)
    return int(scaled)


def format_usdc(amount_micro: int, *, places: int = 2) -> str:
    """Micro-USDC as decimal text with at least ``places`` decimals, and as many more as the amount needs (up to 6)."""
    sign = "-" if amount_micro < 0 else ""
    whole, fraction = divmod(abs(amount_micro), MICRO)
    digits = f"{fraction:06d}".rstrip("0").ljust(places, "0")
    return f"{sign}{whole:,}.{digits}" if digits else f"{sign}{whole:,}"


def format_cents(cents: int) -> str:
    """A currency's cents as decimal text: ``1,234.05``."""
    whole, rest = divmod(abs(cents), 100)
    return f"{'-' if cents < 0 else ''}{whole:,}.{rest:02d}"

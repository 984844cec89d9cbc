"""Euros for USDC, exactly: which cents an amount buys, and what of it those cents take. Pure integers.

The European Central Bank quotes dollars per euro (1.1702); USDC counts as the dollar. A payee gets the reference less a
margin. Cents are floored, and only what they take is paid out: the rest, worth less than a cent, stays payable in USDC.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from billing.fees import BASIS_POINTS
from core.errors import Invalid
from core.money import MICRO

EUR = "EUR"
CENTS = 100
MARGIN_BPS = 50
"""0.5 %: what it costs us to change USDC into euros, and the rate's move until the bank books."""
RATE_MAX_AGE_SECONDS = 24 * 3600
"""The bank publishes every working day; an older reference is another day's price."""
RATE_MAX_CHANGE_BPS = 300
"""3 % from one day to the next has not been seen in ten years: a mistyped digit has."""
RATE_DECIMALS = 6


def cents_for(amount_micro: int, *, reference_micro: int, margin_bps: int) -> int:
    """Euro cents that ``amount_micro`` micro-USDC buy, floored. ``reference_micro``: micro-dollars per euro."""
    _check(amount_micro, reference_micro, margin_bps)
    return amount_micro * CENTS * (BASIS_POINTS - margin_bps) // (reference_micro * BASIS_POINTS)


def micro_for(cents: int, *, reference_micro: int, margin_bps: int) -> int:
    """The least micro-USDC that buy ``cents``: the inverse of ``cents_for``, rounded up."""
    _check(cents, reference_micro, margin_bps)
    return -(-cents * reference_micro * BASIS_POINTS // (CENTS * (BASIS_POINTS - margin_bps)))


def change_bps(old_micro: int, new_micro: int) -> int:
    """How far ``new`` is from ``old``, in basis points of the old one, rounded up."""
    return -(-abs(new_micro - old_micro) * BASIS_POINTS // old_micro)


def parse_reference(text: str, *, field: str = "reference") -> int:
    """``1.1702`` (dollars per euro) as micro-dollars. Raises Invalid, naming the field."""
    allowed = f"dollars per euro, above 0, with at most {RATE_DECIMALS} decimals, such as 1.1702"
    try:
        value = Decimal(text.strip())
    except InvalidOperation:
        raise Invalid.field(field, found=text, allowed=allowed) from None
    if not value.is_finite() or not 0 < value < 1000 or value * MICRO != (value * MICRO).to_integral_value():
        raise Invalid.field(field, found=text, allowed=allowed)
    return int(value * MICRO)


def format_reference(reference_micro: int) -> str:
    """Micro-dollars per euro as people read a rate: at least four decimals."""
    digits = f"{reference_micro % MICRO:06d}".rstrip("0").ljust(4, "0")
    return f"{reference_micro // MICRO}.{digits}"


def _check(amount: int, reference_micro: int, margin_bps: int) -> None:
    if amount < 0 or reference_micro <= 0 or not 0 <= margin_bps < BASIS_POINTS:
        raise ValueError("an amount is >= 0, a rate > 0, a margin at least nothing and less than all")

"""How a charge is divided: provider and platform, then the provider's part over its GPUs. Every split adds up exactly."""

from __future__ import annotations

from core.money import split_micro

BASIS_POINTS = 10_000

DEFAULT_FEE_BPS = 1_000
"""10 %: what marketplaces of this kind take; fixed for a rental when it starts, shown to providers before they price."""


def fee_split(amount_micro: int, *, fee_bps: int) -> tuple[int, int]:
    """(provider's part, platform's part) of a charge, by largest remainder."""
    provider, platform = split_micro(amount_micro, [BASIS_POINTS - fee_bps, fee_bps])
    return provider, platform


def line_split(provider_micro: int, *, gpus: int) -> list[int]:
    """The provider's part over its GPUs: equal up to one micro-USDC, the earlier lines get the odd ones."""
    return split_micro(provider_micro, [1] * gpus)

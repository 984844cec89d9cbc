from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Invalid
from core.money import MICRO, charge_micro, format_usdc, parse_usdc, split_micro


def test_thirty_days_charged_minute_by_minute_cost_what_thirty_days_cost() -> None:
    rate, seconds = 2_490_000, 30 * 24 * 3600
    charged = 0
    for elapsed in range(60, seconds + 1, 60):
        charged += charge_micro(rate_micro=rate, gpus=1, seconds=elapsed) - charged
    assert charged == charge_micro(rate_micro=rate, gpus=1, seconds=seconds) == 1_792_800_000


@given(st.integers(0, 10**15), st.lists(st.integers(0, 10**6), min_size=1, max_size=12).filter(any))
def test_a_split_adds_up_and_no_part_is_off_by_a_whole_unit(total: int, weights: list[int]) -> None:
    parts = split_micro(total, weights)
    assert sum(parts) == total
    assert all(
        abs(part * sum(weights) - total * weight) < sum(weights) for part, weight in zip(parts, weights, strict=True)
    )


@given(st.integers(-(10**15), 10**15))
def test_text_and_amount_say_the_same(amount: int) -> None:
    assert parse_usdc(format_usdc(amount).replace(",", "")) == amount


@pytest.mark.parametrize("text", ["", "abc", "0.0000001", "NaN", "Infinity", "1e30", "1,5"])
def test_what_is_no_amount_is_refused_with_the_field_named(text: str) -> None:
    with pytest.raises(Invalid) as refusal:
        parse_usdc(text, field="rate")
    assert "rate" in refusal.value.fields


def test_amounts_show_as_many_decimals_as_they_need() -> None:
    assert format_usdc(25 * MICRO) == "25.00"
    assert format_usdc(1_234_567_800_001) == "1,234,567.800001"
    assert format_usdc(-380_000) == "-0.38"
    assert format_usdc(MICRO, places=0) == "1"

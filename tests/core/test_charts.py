from __future__ import annotations

from core.charts import HEIGHT, WIDTH, bar_chart


def test_bars_stand_on_zero_and_hang_from_it() -> None:
    chart = bar_chart([("a", 30.0), ("b", 0.0), ("c", -10.0)])
    assert chart is not None
    tall, none, deep = chart.bars
    assert (tall[1], tall[3]) == ("0.0", f"{HEIGHT * 0.75:.1f}")
    assert none[3] == "0.0"
    assert (deep[1], deep[3], chart.zero_y) == (f"{HEIGHT * 0.75:.1f}", f"{HEIGHT * 0.25:.1f}", f"{HEIGHT * 0.75:.1f}")
    assert float(deep[0]) + float(deep[2]) <= WIDTH


def test_nothing_earned_is_no_chart() -> None:
    assert bar_chart([]) is None and bar_chart([("a", 0.0)]) is None

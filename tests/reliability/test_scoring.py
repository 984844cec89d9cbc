"""The public formula: worked by hand, and against a slow oracle that walks the past in steps of 30 seconds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.spans import Span
from reliability.scoring import (
    HALF_LIFE,
    Evidence,
    GpuEvidence,
    JobEvidence,
    completion_of,
    consistency_of,
    score,
    weight_of,
)

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
STEP = timedelta(seconds=30)
DAY = timedelta(days=1)
HOST = UUID(int=1)


def gpu(
    declared: Sequence[Span], online: Sequence[Span], *, number: int = 1, machine: UUID = HOST, **more: object
) -> GpuEvidence:
    return GpuEvidence(UUID(int=100 + number), machine, declared, online, **more)  # type: ignore[arg-type]


def ago(**duration: float) -> datetime:
    return NOW - timedelta(**duration)


def uptime(*gpus: GpuEvidence) -> float:
    found = score(Evidence(NOW, gpus)).uptime
    assert found is not None
    return found


# -- Worked examples --------------------------------------------------------------------------------------------------


def test_a_perfect_history_scores_100() -> None:
    always = [(ago(days=30), NOW)]
    jobs = tuple(JobEvidence(f"job:{n}", HOST, True, 3600, ago(days=n)) for n in range(1, 20))
    parts = score(Evidence(NOW, (gpu(always, always, consistency=1.0),), jobs))
    assert (parts.uptime, parts.completion, parts.consistency, parts.score) == (1, 1, 1, 100)
    assert parts.evidence_seconds == 30 * 86400


def test_nothing_declared_is_unknown_not_zero() -> None:
    parts = score(Evidence(NOW))
    assert (parts.uptime, parts.score, parts.consistency, parts.completion) == (None, None, None, 1)


def test_a_day_is_worth_half_after_14_days() -> None:
    recent = weight_of([(ago(days=1), NOW)], NOW)
    older = weight_of([(ago(days=1) - HALF_LIFE, NOW - HALF_LIFE)], NOW)
    assert older == pytest.approx(recent / 2)
    assert recent == pytest.approx(86400, rel=0.03)


def test_one_recent_day_off_out_of_ten() -> None:
    # Weight of the last day ÷ weight of ten days, less the ten forgiven minutes of 1,440: (1−2^(−1/14)) ÷ (1−2^(−10/14)).
    declared = [(ago(days=10), NOW)]
    expected = 1 - (1 - 2 ** (-1 / 14)) / (1 - 2 ** (-10 / 14)) * (1 - 10 / 1440)
    assert uptime(gpu(declared, [(ago(days=10), ago(days=1))])) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("gap_s", "clean"), [(90, True), (600, True), (601, False)])
def test_silences_of_90_seconds_and_ten_minutes_a_month_cost_nothing(gap_s: int, clean: bool) -> None:
    online = [(ago(days=5), ago(days=1)), (ago(days=1) + timedelta(seconds=gap_s), NOW)]
    found = uptime(gpu([(ago(days=5), NOW)], online))
    assert (found == 1) is clean


def test_a_hundred_silences_of_90_seconds_cost_nothing_but_of_91_they_do() -> None:
    def history(gap_s: int) -> list[Span]:
        starts = [ago(days=2) + n * timedelta(minutes=20) for n in range(100)]
        return [(at, at + timedelta(minutes=20, seconds=-gap_s)) for at in starts] + [
            (starts[-1] + timedelta(minutes=20), NOW)
        ]

    declared = [(ago(days=2), NOW)]
    assert uptime(gpu(declared, history(90))) == 1
    assert uptime(gpu(declared, history(91))) < 0.99


def test_the_open_outage_counts() -> None:
    assert uptime(gpu([(ago(hours=10), NOW)], [(ago(hours=10), ago(hours=5))])) == pytest.approx(0.515, abs=0.002)


def test_silence_of_the_last_seconds_is_still_online() -> None:
    assert uptime(gpu([(ago(hours=10), NOW)], [(ago(hours=10), ago(seconds=80))])) == 1


def test_outside_the_declared_hours_and_in_our_outages_nothing_is_owed() -> None:
    online = [(ago(hours=20), ago(hours=10))]
    assert uptime(gpu([(ago(hours=20), ago(hours=10))], online)) == 1
    assert uptime(gpu([(ago(hours=20), NOW)], online, excused=[(ago(hours=10), NOW)])) == 1


def test_drained_and_delisted_time_is_missing_although_online() -> None:
    always = [(ago(hours=10), NOW)]
    assert uptime(gpu(always, always, unavailable=[(ago(hours=5), NOW)])) < 0.52


def test_a_provider_is_the_mean_of_gpus_by_declared_time() -> None:
    good, none = [(ago(hours=30), NOW)], [(ago(hours=10), NOW)]
    found = uptime(gpu(good, good), gpu(none, [], number=2))
    expected = 1 - weight_of(none, NOW) * (1 - 10 / 600) / (weight_of(good, NOW) + weight_of(none, NOW))
    assert found == pytest.approx(expected)


def test_what_left_the_window_is_forgotten() -> None:
    declared = [(ago(days=120), NOW)]
    assert uptime(gpu(declared, [(ago(days=90), NOW)])) == 1


def test_one_failure_against_the_prior_of_ten_clean_jobs() -> None:
    assert completion_of([JobEvidence("a", HOST, False, 3600, NOW)], NOW) == pytest.approx(10 / 11)


@pytest.mark.parametrize(("seconds", "hours"), [(1, 0.1), (7200, 2.0), (3600 * 500, 10.0)])
def test_a_job_weighs_by_gpu_hours_clamped(seconds: int, hours: float) -> None:
    assert completion_of([JobEvidence("a", HOST, False, seconds, NOW)], NOW) == pytest.approx(10 / (10 + hours))


def test_a_failure_fades() -> None:
    old = completion_of([JobEvidence("a", HOST, False, 3600, NOW - HALF_LIFE)], NOW)
    assert old == pytest.approx(10 / 10.5)
    assert completion_of([JobEvidence("a", HOST, False, 3600, ago(days=91))], NOW) == 1


@pytest.mark.parametrize(
    ("runs", "expected"),
    [
        ([], None),
        ([100.0], 1.0),
        ([100.0, 101.0, 99.0, 120.0, 120.0, 120.0], 1.0),
        ([100.0, 101.0, 99.0, 80.0, 81.0, 79.0], 0.8),
        ([100.0, 101.0, 99.0, 100.0, 50.0, 100.0], 1.0),
    ],
)
def test_consistency_is_recent_median_over_baseline_median(runs: list[float], expected: float | None) -> None:
    assert consistency_of([{"fp32_tflops": value} for value in runs]) == expected


def test_the_worst_metric_counts_and_an_unknown_one_does_not() -> None:
    runs = [{"fp32_tflops": 100.0, "fp16_tflops": 200.0}] * 3 + [{"fp32_tflops": 95.0}] * 3
    assert consistency_of(runs) == pytest.approx(0.95)


CELLS = 480  # four hours

# -- The oracle -------------------------------------------------------------------------------------------------------


def oracle_uptime(cards: Sequence[GpuEvidence], since: datetime) -> float | None:
    """Walks CELLS cells of 30 s from ``since``. Everything lies on that grid; weights are taken at the middle of a cell."""
    declared_weight = missing_weight = 0.0
    cells = [since + number * STEP for number in range(CELLS)]
    last_cell_ends_now = cells[-1] + STEP == NOW

    def inside(spans: Sequence[Span], at: datetime) -> bool:
        return any(start <= at < end for start, end in spans)

    for card in cards:
        up = [inside(card.online, at) for at in cells]
        for number in [n for n, online in enumerate(up) if online]:
            silent = 0
            while number + silent + 1 < CELLS and not up[number + silent + 1]:
                silent += 1
            ends = number + silent + 1 == CELLS
            # A silence of three cells is none: between two intervals, or when it is going on at this moment.
            if silent <= 3 and (not ends or last_cell_ends_now):
                up[number + 1 : number + 1 + silent] = [True] * silent
        owed: dict[int, list[float]] = {}
        for at, online in zip(cells, up, strict=True):
            if not inside(card.declared, at) or inside(card.excused, at):
                continue
            weight = 2 ** (-((NOW - at - STEP / 2) / timedelta(days=14)))
            declared_weight += weight
            if not online or inside(card.unavailable, at):
                owed.setdefault((NOW - at - STEP) // timedelta(days=30), []).append(weight)
        for weights in owed.values():
            if len(weights) > 20:  # ten minutes
                missing_weight += sum(weights) * (1 - 20 / len(weights))
    return None if declared_weight == 0 else max(0.0, 1 - missing_weight / declared_weight)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[GpuEvidence], datetime]:
    """Up to three cards over four hours; the hours lie anywhere in the 90 days, so also across a 30-day border."""
    days = draw(st.sampled_from([0.0, 0.1, 13.0, 29.9, 30.1, 59.95, 80.0]))
    since = NOW - timedelta(days=days) - CELLS * STEP
    since = NOW - ((NOW - since) // STEP) * STEP

    def spans(most: int) -> list[Span]:
        edge = st.integers(0, CELLS)
        pairs = draw(st.lists(st.tuples(edge, edge), max_size=most))
        return [(since + min(pair) * STEP, since + max(pair) * STEP) for pair in pairs if pair[0] != pair[1]]

    def flapping() -> list[Span]:
        """A host that comes and goes: silences around the 90 seconds that are none."""
        at, found = draw(st.integers(0, 60)), []
        for up, down in draw(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 6)), max_size=20)):
            last = min(at + up, CELLS)
            found.append((since + at * STEP, since + last * STEP))
            at = min(last + down, CELLS)
        return [(start, end) for start, end in found if start < end]

    cards = [
        gpu(
            spans(3),
            draw(st.sampled_from([flapping, lambda: spans(6)]))(),
            number=number,
            unavailable=spans(2),
            excused=spans(2),
        )
        for number in range(draw(st.integers(1, 3)))
    ]
    return cards, since


@settings(max_examples=60, deadline=None)
@given(histories())
def test_it_agrees_with_the_oracle(history: tuple[list[GpuEvidence], datetime]) -> None:
    cards, since = history
    found = score(Evidence(NOW, tuple(cards))).uptime
    expected = oracle_uptime(cards, since)
    assert found == (None if expected is None else pytest.approx(expected, abs=1e-6))


@settings(max_examples=60)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 10**6), st.integers(0, 100 * 86400)), max_size=12))
def test_completion_agrees_with_its_definition_and_stays_within_bounds(jobs: list[tuple[bool, int, int]]) -> None:
    evidence = [
        JobEvidence(str(number), HOST, done, seconds, NOW - timedelta(seconds=age))
        for number, (done, seconds, age) in enumerate(jobs)
    ]
    good = bad = 0.0
    for done, seconds, age in jobs:
        if age <= 90 * 86400:
            weight = 0.5 ** (age / (14 * 86400)) * min(max(seconds / 3600, 0.1), 10)
            good, bad = (good + weight, bad) if done else (good, bad + weight)
    found = completion_of(evidence, NOW)
    assert found == pytest.approx((10 + good) / (10 + good + bad))
    assert 0 < found <= 1

"""Figures against minimum and peak: an L40S as the catalogue knows it, limits as the first suite ships them."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

import pytest

from benchmarks.migrations._suite_one import THRESHOLDS
from benchmarks.verification import (
    METRICS,
    REASON_CODES,
    Judgement,
    Limits,
    Reference,
    judge,
    matrix_size,
    performance_index,
    standing,
)

LIMITS = Limits(**{name: Decimal(value) for name, value, _reason in THRESHOLDS})
L40S = Reference(
    measured={"fp32_tflops": Decimal(35), "fp16_tflops": Decimal(171), "tensor_tflops": Decimal(171)},
    peak={
        "fp32_tflops": Decimal("91.6"),
        "fp16_tflops": Decimal(362),
        "tensor_tflops": Decimal(362),
        "memory_read_gbps": Decimal(864),
    },
)
HEALTHY = {
    "fp32_tflops": 35,
    "fp16_tflops": 172,
    "tensor_tflops": 175,
    "memory_read_gbps": 700,
    "memory_write_gbps": 690,
    "memory_copy_gbps": 640,
    "storage_read_mbps": 3000,
    "storage_write_mbps": 2000,
    "network_down_mbps": 900,
    "network_up_mbps": 400,
    "latency_ms": 20,
}


def judged(
    changes: Mapping[str, float | None] | None = None,
    *,
    medians: dict[str, Decimal | None] | None = None,
    gib: int = 48,
) -> Judgement:
    values = {
        name: None if value is None else Decimal(str(value)) for name, value in (HEALTHY | (changes or {})).items()
    }
    return judge(values, reference=L40S, limits=LIMITS, fleet_medians=medians, machine_memory_gib=Decimal(gib))


def codes(judgement: Judgement) -> list[str]:
    return [reason.code for reason in judgement.below]


def test_a_healthy_card_passes() -> None:
    found = judged()
    assert found.meets_minimum
    assert not found.suspicious
    assert found.health_percent == Decimal("100.0")


@pytest.mark.parametrize(
    ("metric", "just_enough", "too_little", "code"),
    [
        ("fp32_tflops", 26.25, 26.24, "below_fp32"),
        ("fp16_tflops", 128.25, 128.24, "below_fp16"),
        ("tensor_tflops", 128.25, 128.24, "below_tensor"),
        ("network_down_mbps", 124.8, 124.7, "network_too_slow"),  # 48 GiB × 2.6
        ("network_up_mbps", 50, 49.9, "upload_too_slow"),
        ("latency_ms", 300, 300.1, "latency_too_high"),
        ("storage_read_mbps", 500, 499, "storage_read_too_slow"),
        ("storage_write_mbps", 300, 299, "storage_write_too_slow"),
    ],
)
def test_each_limit_bites_exactly(metric: str, just_enough: float, too_little: float, code: str) -> None:
    assert judged({metric: just_enough}).meets_minimum
    assert codes(judged({metric: too_little})) == [code]
    assert code in REASON_CODES


@pytest.mark.parametrize(("gib", "least"), [(24, 100), (80, 208), (640, 500)])
def test_the_network_has_to_fit_the_memory_up_to_a_cap(gib: int, least: float) -> None:
    assert judged({"network_down_mbps": least}, gib=gib).meets_minimum
    assert codes(judged({"network_down_mbps": least - 1}, gib=gib)) == ["network_too_slow"]


@pytest.mark.parametrize("metric", METRICS)
def test_a_missing_figure_is_named_and_never_zero(metric: str) -> None:
    found = judged({metric: None})
    assert codes(found) == ["missing_" + metric.rpartition("_")[0]]
    assert found.below[0].measured is None
    assert found.health_percent is not None  # the others still say something


def test_a_metric_without_a_reference_has_no_minimum() -> None:
    assert judged({"memory_copy_gbps": 1}).meets_minimum


def test_above_peak_by_15_percent_is_suspicious_not_bad() -> None:
    assert not judged({"fp32_tflops": 91.6 * 1.15}).suspicious
    found = judged({"fp32_tflops": 105.35})
    assert [reason.code for reason in found.suspicious] == ["above_peak_fp32"]
    assert found.meets_minimum


def test_a_large_fleet_sets_the_standard_instead_of_the_reference() -> None:
    medians: dict[str, Decimal | None] = {"fp32_tflops": Decimal(40)}
    assert codes(judged({"fp32_tflops": 31.9}, medians=medians)) == ["below_fp32"]
    assert judged({"fp32_tflops": 32}, medians=medians).meets_minimum


def test_health_is_the_worst_gpu_metric() -> None:
    assert judged({"fp16_tflops": 136.8}).health_percent == Decimal("80.0")


def test_an_a100_80_has_index_100_and_an_unknown_figure_has_none() -> None:
    a100 = {"fp16_tflops": Decimal(239), "fp32_tflops": Decimal(18)}
    assert performance_index(a100) == Decimal("100.0")
    assert performance_index(a100 | {"fp16_tflops": None}) is None


@pytest.mark.parametrize(
    ("recent", "was_listed", "in_review", "listed"),
    [
        ([True], None, False, True),
        ([False], None, False, False),
        ([False, True], True, False, True),  # one bad run delists nobody
        ([False, False, True], True, False, False),  # two of three
        ([False, True, False], True, False, False),  # two of three, with a good one between
        ([True, False, False], False, False, True),  # a good one lists again
        ([False, True, True], False, False, False),
        ([True, True, True], True, True, False),  # never out of a review
    ],
)
def test_listing_is_staged(recent: list[bool], was_listed: bool | None, in_review: bool, listed: bool) -> None:
    assert standing(recent_meets=recent, was_listed=was_listed, in_review=in_review) is listed


@pytest.mark.parametrize(("gib", "n"), [(80, 16_384), (48, 8192), (24, 8192), (12, 4096), (0, 4096)])
def test_matrices_fit_the_memory(gib: int, n: int) -> None:
    assert matrix_size(Decimal(gib)) == n

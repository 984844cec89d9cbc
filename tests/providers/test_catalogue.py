"""The catalogue comes with the migration; a card is what its exact name and its memory say."""

from __future__ import annotations

import pytest

from providers.matching import MIB, match
from providers.models import GpuModel
from providers.selectors import aliases_known

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("name", "mib", "slug"),
    [
        ("NVIDIA H100 80GB HBM3", 81559, "h100-sxm-80gb"),
        ("NVIDIA H100 PCIe", 81559, "h100-pcie-80gb"),
        ("NVIDIA A100-SXM4-40GB", 40960, "a100-sxm-40gb"),
        ("NVIDIA A100 80GB PCIe", 81920, "a100-pcie-80gb"),
        ("NVIDIA L40S", 46068, "l40s-48gb"),
        ("NVIDIA L40S", 49140, "l40s-48gb"),
        ("NVIDIA L4", 23034, "l4-24gb"),
        ("NVIDIA GeForce RTX 4090", 24564, "rtx-4090-24gb"),
        ("NVIDIA RTX A6000", 48601, "rtx-a6000-48gb"),
    ],
)
def test_a_healthy_card_is_recognised(name: str, mib: int, slug: str) -> None:
    found = match(aliases_known(), name=name, memory_bytes=mib * MIB)
    assert found.reason == ""
    assert GpuModel.objects.get(pk=found.model).slug == slug


@pytest.mark.parametrize(
    ("name", "mib", "reason"),
    [
        ("NVIDIA L4", 46068, "memory_mismatch"),
        ("NVIDIA A100-SXM4-80GB", 40960, "memory_mismatch"),
        ("NVIDIA L40", 46068, "unknown_model"),
        ("nvidia l4", 23034, "unknown_model"),
        ("NVIDIA L4 ", 23034, "unknown_model"),
        ("Unable to determine the device handle", 23034, "unknown_model"),
        (None, 23034, "unknown_model"),
        ("NVIDIA L4", None, "memory_unknown"),
    ],
)
def test_a_doubtful_card_is_never_guessed(name: str | None, mib: int | None, reason: str) -> None:
    memory = None if mib is None else mib * MIB
    assert match(aliases_known(), name=name, memory_bytes=memory).reason == reason


def test_the_tolerance_ends_at_five_percent() -> None:
    aliases = aliases_known()
    edge = 40960 * MIB * 105 // 100
    assert match(aliases, name="NVIDIA A100-SXM4-40GB", memory_bytes=edge).reason == ""
    assert match(aliases, name="NVIDIA A100-SXM4-40GB", memory_bytes=edge + 1).reason == "memory_mismatch"

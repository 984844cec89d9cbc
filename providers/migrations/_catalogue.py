"""The cards of the first catalogue: (slug, name, family, facts, NVML names).

Peaks are the vendor's dense figures (TFLOPS; FP16 on tensor cores with FP32 accumulate; GB/s). References are what
healthy cards measure in a plain matmul; where those spread, the lower end, so that the 75 % minimum delists no healthy
card. The A100 40 GB cards have the same chip and power as their 80 GB twins, hence the same references.
Memory in MiB as the driver shows it; GDDR cards show a sixteenth less with ECC on.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any


def _facts(
    memory_gb: int, memory_mib: int, ecc_mib: int | None, peaks: tuple[str, str, str], measured: tuple[str, str]
) -> dict[str, Any]:
    fp32, fp16, bandwidth = (Decimal(figure) for figure in peaks)
    fp32_reference, fp16_reference = (Decimal(figure) for figure in measured)
    return {
        "memory_gb": memory_gb,
        "memory_mib": memory_mib,
        "memory_ecc_mib": ecc_mib,
        "fp32_tflops_peak": fp32,
        "fp16_tflops_peak": fp16,
        "bandwidth_gbps_peak": bandwidth,
        "fp32_tflops_reference": fp32_reference,
        "fp16_tflops_reference": fp16_reference,
    }


CATALOGUE: tuple[tuple[str, str, str, dict[str, Any], tuple[str, ...]], ...] = (
    (
        "h100-sxm-80gb",
        "NVIDIA H100 SXM 80 GB",
        "H100",
        _facts(80, 81559, None, ("67.0", "989.4", "3350"), ("49", "570")),
        ("NVIDIA H100 80GB HBM3",),
    ),
    (
        "h100-pcie-80gb",
        "NVIDIA H100 PCIe 80 GB",
        "H100",
        _facts(80, 81559, None, ("51.0", "756.0", "2000"), ("37", "330")),
        ("NVIDIA H100 PCIe",),
    ),
    (
        "a100-sxm-80gb",
        "NVIDIA A100 SXM 80 GB",
        "A100",
        _facts(80, 81920, None, ("19.5", "312.0", "2039"), ("18", "239")),
        ("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"),
    ),
    (
        "a100-pcie-80gb",
        "NVIDIA A100 PCIe 80 GB",
        "A100",
        _facts(80, 81920, None, ("19.5", "312.0", "1935"), ("17", "197")),
        ("NVIDIA A100 80GB PCIe", "A100 80GB PCIe"),
    ),
    (
        "a100-sxm-40gb",
        "NVIDIA A100 SXM 40 GB",
        "A100",
        _facts(40, 40960, None, ("19.5", "312.0", "1555"), ("18", "239")),
        ("NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB"),
    ),
    (
        "a100-pcie-40gb",
        "NVIDIA A100 PCIe 40 GB",
        "A100",
        _facts(40, 40960, None, ("19.5", "312.0", "1555"), ("17", "197")),
        ("NVIDIA A100-PCIE-40GB", "A100-PCIE-40GB"),
    ),
    (
        "l40s-48gb",
        "NVIDIA L40S 48 GB",
        "L40S",
        _facts(48, 49140, 46068, ("91.6", "362.0", "864"), ("35", "171")),
        ("NVIDIA L40S",),
    ),
    (
        "l4-24gb",
        "NVIDIA L4 24 GB",
        "L4",
        _facts(24, 24570, 23034, ("30.3", "121.0", "300"), ("9", "51")),
        ("NVIDIA L4",),
    ),
    (
        "rtx-4090-24gb",
        "NVIDIA GeForce RTX 4090 24 GB",
        "RTX 4090",
        _facts(24, 24564, 23028, ("82.6", "165.2", "1008"), ("48", "157")),
        ("NVIDIA GeForce RTX 4090",),
    ),
    (
        "rtx-a6000-48gb",
        "NVIDIA RTX A6000 48 GB",
        "RTX A6000",
        _facts(48, 49140, 46068, ("38.7", "154.8", "768"), ("21", "48")),
        ("NVIDIA RTX A6000",),
    ),
)

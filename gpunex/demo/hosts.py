"""The folders of the demo's hosts: a simulated profile and an enrolment token for each, ready for ``python -m agent run``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from uuid import uuid4

from gpunex.demo.world import DemoMachine
from providers.models import GpuModel

BENCHMARK_SECONDS = 1.0
"""A simulated measurement measures nothing, so nobody has to wait for it."""
MIB = 2**20


def host_write(folder: Path, machine: DemoMachine, *, token: str) -> None:
    """Profile and token of one host. Both are kept if they exist: cards do not change their UUIDs."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    profile = folder / "profile.json"
    if not profile.exists():
        profile.write_text(json.dumps(_profile(machine), indent=2))
    with os.fdopen(os.open(folder / "token", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as handle:
        handle.write(token)


def _profile(machine: DemoMachine) -> dict[str, object]:
    model = GpuModel.objects.get(slug=machine.model)
    alias = model.aliases.order_by("pk").first()
    assert alias is not None, f"{model.slug} has no NVML name"
    figures = {} if machine.share == 1.0 else {"benchmark": _figures(model, machine.share)}
    gpus = [
        {
            "uuid": f"GPU-{uuid4()}",
            "name": alias.nvml_name,
            "memory_bytes": model.memory_mib * MIB,
            "pci_bus_id": f"00000000:{0x21 + 0x20 * number:02X}:00.0",
            **figures,
        }
        for number in range(machine.gpus)
    ]
    return {"gpus": gpus, "benchmark_s": BENCHMARK_SECONDS}


def _figures(model: GpuModel, share: float) -> dict[str, float]:
    """What a card measures that reaches this share of its model's reference; its host is a good one."""
    references = (model.fp32_tflops_reference, model.fp16_tflops_reference, model.bandwidth_gbps_reference)
    fp32, fp16, bandwidth = (float(reference or 0) * share for reference in references)
    return {
        "fp32_tflops": fp32,
        "fp16_tflops": fp16,
        "tensor_tflops": fp16,
        "memory_read_gbps": bandwidth * 0.92,
        "memory_write_gbps": bandwidth * 0.90,
        "memory_copy_gbps": bandwidth * 0.85,
        "storage_read_mbps": 3200.0,
        "storage_write_mbps": 1900.0,
        "network_down_mbps": 940.0,
        "network_up_mbps": 610.0,
        "latency_ms": 24.0,
    }

"""What cards answer to nvidia-smi, as cards of the fake NVML library.

A few answers are written down here; captures of real cards are read in addition where ../shared/data is present.
"""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.agent.host import ROOT

# Beside the checkout, or one folder up where the checkout is a linked worktree.
FOLDER = next((each / "shared" / "data" for each in ROOT.parents if (each / "shared" / "data").is_dir()), Path("/none"))
MIB = 1024 * 1024


@dataclass(frozen=True)
class Answer:
    """One card at one moment: nvidia-smi's columns (without units), and how many processes compute on it."""

    name: str
    row: dict[str, str]
    processes: int


_L4 = {
    "driver_version": "570.86.15",
    "name": "NVIDIA L4",
    "pci.bus_id": "00000000:3B:00.0",
    "pcie.link.gen.max": "4",
    "pcie.link.width.max": "8",
    "vbios_version": "95.04.65.00.01",
    "clocks_event_reasons.active": "0x0000000000000001",
    "memory.total": "23034 MiB",
    "memory.used": "1 MiB",
    "utilization.gpu": "0 %",
    "ecc.mode.current": "Enabled",
    "temperature.gpu": "38",
    "power.draw": "16.80 W",
    "enforced.power.limit": "72.00 W",
    "mig.mode.current": "[N/A]",
}
WRITTEN = [
    Answer("l4", _L4, 0),
    Answer(
        "geforce-without-ecc",
        _L4
        | {"name": "NVIDIA GeForce RTX 4090", "memory.total": "24564 MiB", "ecc.mode.current": "[N/A]"}
        | {"clocks_event_reasons.active": "0x0000000000000004", "power.draw": "449.10 W"},
        1,
    ),
    Answer(
        "h100-split",
        _L4
        | {"name": "NVIDIA H100 80GB HBM3", "memory.total": "81559 MiB", "mig.mode.current": "Enabled"}
        | {"utilization.gpu": "[N/A]", "enforced.power.limit": "700.00 W"},
        0,
    ),
]


def answers() -> list[Answer]:
    """Ours and, where present, those of the captures."""
    found = list(WRITTEN)
    for path in sorted(FOLDER.glob("linux-x86_64__*.txt")):
        name = path.stem.split("__")[1].removeprefix("nvidia-")
        for moment, row, running in zip(("rest", "load"), rows(path), processes(path), strict=True):
            found.append(Answer(f"{name}-{moment}", row, running))
    return found


def kernel_logs() -> list[Path]:
    return sorted(FOLDER.glob("gpud_dmesg_xid*.log"))


def rows(path: Path) -> list[dict[str, str]]:
    """The cards of a capture at rest, then under load: column (without its unit) to what nvidia-smi wrote."""
    lines = path.read_text().splitlines()
    found = []
    for number, line in enumerate(lines):
        if line.startswith("timestamp, ") and "memory.total" in line:
            names, values = csv.reader(lines[number : number + 2], skipinitialspace=True)
            found.append(dict(zip((name.split(" [")[0] for name in names), values, strict=True)))
    return found


def processes(path: Path) -> list[int]:
    """How many processes computed at rest and under load."""
    lines = path.read_text().splitlines()
    starts = [
        number for number, line in enumerate(lines) if line.startswith("timestamp, gpu_name") and " pid, " in line
    ]
    starts = [number for number in starts if "process_name" in lines[number]]
    return [next(n for n in range(500) if not lines[start + 1 + n].strip()) for start in starts]


def number(text: str) -> float | None:
    """``350.00 W`` → 350.0; null for what the card did not say."""
    return None if text == "[N/A]" else float(text.split()[0])


def card(row: dict[str, str], *, uuid: str, running: int = 0) -> str:
    """The row as a card of the fake library. The captures mask UUIDs, so each gets its own."""
    modes = {"Enabled": 1, "Disabled": 0}
    lines: dict[str, Any] = {
        "name": row["name"],
        "memory": _scaled(row["memory.total"], MIB),
        "used": _scaled(row["memory.used"], MIB),
        "bus": row["pci.bus_id"],
        "gen": _scaled(row["pcie.link.gen.max"], 1),
        "width": _scaled(row["pcie.link.width.max"], 1),
        "limit": _scaled(row["enforced.power.limit"], 1000),
        "power": _scaled(row["power.draw"], 1000),
        "load": _scaled(row["utilization.gpu"], 1),
        "temperature": _scaled(row["temperature.gpu"], 1),
        "ecc": modes.get(row["ecc.mode.current"]),
        "mig": modes.get(row["mig.mode.current"]),
        "vbios": row["vbios_version"],
        "throttle": row["clocks_event_reasons.active"],
        "processes": running,
    }
    told = "".join(f"{key} {value}\n" for key, value in lines.items() if value is not None)
    return f"gpu {uuid}\n{told}"


def _scaled(text: str, unit: int) -> int | None:
    value = number(text)
    return None if value is None else round(value * unit)

"""The fake NVML library, compiled once per process that tests, and the state file that drives it."""

import atexit
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).with_name("fake_nvml.c")
HEAD = "driver 550.54.14\ncuda 12040\n"
L4 = (
    "gpu GPU-11111111-0000-0000-0000-000000000001\nname NVIDIA L4\nmemory 25757220864\nused 1048576\n"
    "bus 00000000:01:00.0\ngen 4\nwidth 16\nlimit 72000\npower 16500\nload 3\ntemperature 41\n"
    "sm_clock 2040\nmemory_clock 6251\necc 1\nmig 0\n"
    "vbios 95.04.29\nprocesses 0\nthrottle 0x1\n"
)
A100 = (
    "gpu GPU-22222222-0000-0000-0000-000000000002\nname NVIDIA A100-SXM4-80GB\nmemory 85899345920\nused 0\n"
    "bus 00000000:41:00.0\ngen 4\nwidth 16\nlimit 400000\npower 62000\nload 0\ntemperature 30\necc 1\nmig 0\n"
    "vbios 92.00\nprocesses 2\nthrottle 0x44\n"
)
L4_UUID = "GPU-11111111-0000-0000-0000-000000000001"
A100_UUID = "GPU-22222222-0000-0000-0000-000000000002"


@cache
def library_folder() -> Path:
    """A folder holding libnvidia-ml.so.1."""
    folder = Path(tempfile.mkdtemp(prefix="fake-nvml-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(
        ["gcc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden", "-o", library, SOURCE],
        check=True,
    )
    return folder


def environment(state: Path) -> dict[str, str]:
    return {"LD_LIBRARY_PATH": str(library_folder()), "FAKE_NVML_STATE": str(state)}


def write(state: Path, *parts: str) -> None:
    """Replace the state in one step: the library reads it at any moment."""
    partial = state.with_suffix(".partial")
    partial.write_text("".join(parts))
    os.replace(partial, state)

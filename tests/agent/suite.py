"""The benchmark suite as a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from tests.agent.host import ROOT


@dataclass(frozen=True)
class Said:
    """What a run of the suite printed, and its exit code."""

    code: int
    lines: list[dict[str, Any]]

    def all(self, event: str) -> list[dict[str, Any]]:
        return [each for each in self.lines if each["event"] == event]

    def one(self, event: str) -> dict[str, Any]:
        (found,) = self.all(event)
        return found


def suite_run(*arguments: str, python: str = sys.executable) -> Said:
    environment = {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [python, "-m", "agent.suite", *arguments], env=environment, capture_output=True, text=True, check=False
    )
    return Said(done.returncode, [json.loads(line) for line in done.stdout.splitlines()])

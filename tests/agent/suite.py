"""The benchmark suite as a process of its own, spoken to through its workspace and its output."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.agent.host import ROOT

NONCE = "n1"


class Suite:
    """`measure`, started; `line(event)` waits for the first line of that event, or for the end."""

    def __init__(self, workspace: Path, *options: str, python: str = sys.executable) -> None:
        self.workspace = workspace
        self.seen: list[dict[str, Any]] = []
        self.environment = {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self.python = python
        command = [python, "-m", "agent.suite", "measure", "--workspace", str(workspace), "--nonce", NONCE]
        self.process = subprocess.Popen(
            [*command, *options], env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def line(self, event: str) -> dict[str, Any] | None:
        assert self.process.stdout is not None
        for text in self.process.stdout:
            self.seen.append(json.loads(text))
            if self.seen[-1]["event"] == event:
                return self.seen[-1]
        return None

    def deliver(self, name: str, value: Any) -> subprocess.CompletedProcess[str]:
        command = [self.python, "-m", "agent.suite", "deliver", "--workspace", str(self.workspace), name]
        return subprocess.run(
            [*command, value if isinstance(value, str) else json.dumps(value)],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def finish(self) -> int:
        while self.line("") is not None:
            pass
        self.process.communicate()
        return self.process.returncode

    def all(self, event: str) -> list[dict[str, Any]]:
        return [each for each in self.seen if each["event"] == event]

"""The real agent as a process of its own, on a state folder that outlives it."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.agent.platform import TOKEN
from tests.agent.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
GPU_A = "GPU-aaaaaaaa-0000-0000-0000-000000000001"
GPU_B = "GPU-aaaaaaaa-0000-0000-0000-000000000002"
PROFILE: dict[str, Any] = {
    "benchmark_s": 0.2,
    "gpus": [
        {"uuid": GPU_A, "name": "NVIDIA L4", "memory_bytes": 24 * 2**30, "power_limit_w": 72.0},
        {"uuid": GPU_B, "name": "NVIDIA A100-SXM4-80GB", "memory_bytes": 80 * 2**30, "power_limit_w": 400.0},
    ],
}


def attempt_body(*command: str, **changes: Any) -> dict[str, Any]:
    """A plan item's body for a shell command or an argument list."""
    return {
        "attempt_id": str(uuid4()),
        "job_id": str(uuid4()),
        "number": 1,
        "token": uuid4().hex,
        "desired": "run",
        "stop_reason": None,
        "image": "busybox:latest",
        "command": ["sh", "-c", *command] if len(command) == 1 else list(command),
        "environment": {},
        "gpu_uuids": [GPU_A],
        "limits": {"memory_bytes": 2**27, "cpus": 1.0, "disk_bytes": 2**30, "shm_bytes": 2**20, "pids": 64},
        "time_limit_s": 600,
        "disconnect_grace_s": 600,
        "log_limit_bytes": 2**20,
        **changes,
    }


class AgentHost:
    """`start` may be called again after `terminate` or `kill`: the same machine, a new process."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.state = folder / "state"
        self.profile = folder / "profile.json"
        self.profile.write_text(json.dumps(PROFILE))
        self.process: subprocess.Popen[bytes] | None = None
        self.environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "GPUNEX_TOKEN": TOKEN}
        self.options: dict[str, str] = {
            "--runtime": "process",
            "--probe": "simulated",
            "--simulated-profile": str(self.profile),
            "--sync-interval": "0.15",
            "--stop-grace": "1",
        }

    def start(self) -> "AgentHost":
        arguments = [word for pair in self.options.items() for word in pair]
        with open(self.folder / "agent.log", "ab") as journal:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "agent", "run", "--url", self.url, "--state", str(self.state), *arguments],
                cwd=self.folder,
                env=self.environment,
                stderr=journal,
                stdin=subprocess.DEVNULL,
            )
        return self

    def terminate(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(60)

    def exit_code(self, timeout_s: float = 60.0) -> int:
        assert self.process is not None
        return self.process.wait(timeout_s)

    def journal(self) -> str:
        return (self.folder / "agent.log").read_text()

    def rss_bytes(self) -> int:
        assert self.process is not None
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")

    def sql(self, statement: str, *values: Any) -> list[Any]:
        with sqlite3.connect(self.state / "agent.sqlite3") as connection:
            return connection.execute(statement, values).fetchall()

    def job_running(self, body: dict[str, Any]) -> bool:
        """Whether the job's supervisor lives, seen from outside."""
        started = self.state / "jobs" / f"gpunex-job-{body['job_id']}-{body['number']}" / "started.json"
        return started.exists() and Path(f"/proc/{json.loads(started.read_text())['pid']}").exists()

    def clean_up(self) -> None:
        """Nothing of a test stays behind, however it ended."""
        if self.process is not None and self.process.poll() is None:
            self.kill()
        if self.options["--runtime"] != "process" or not any((self.state / "jobs").glob("*")):
            return
        stop = [sys.executable, "-m", "agent", "stop-jobs", "--state", str(self.state), "--runtime", "process"]
        stopped = subprocess.run(
            [*stop, "--stop-grace", "0.05"], cwd=self.folder, env=self.environment, capture_output=True, check=False
        )
        assert stopped.returncode == 0, stopped.stderr.decode()
        for started in (self.state / "jobs").glob("*/started.json"):
            # Supervisors that a test killed could not do it themselves.
            shutil.rmtree(json.loads(started.read_text())["workspace"], ignore_errors=True)


def running(platform: Any, body: dict[str, Any]) -> None:
    eventually(lambda: platform.state(body["attempt_id"]) == "running", "the attempt runs")


def ended(platform: Any, body: dict[str, Any], timeout_s: float = 60.0) -> dict[str, Any]:
    """The report of the end, once the log is final too."""
    found = eventually(lambda: platform.ends(body["attempt_id"]), "the end is reported", timeout_s)
    eventually(lambda: body["attempt_id"] in platform.log_final, "the log is final", timeout_s)
    assert len(found) == 1
    return found[0]

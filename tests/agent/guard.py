"""The real guard as a process of its own, before an engine's socket."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from tests.agent.host import ROOT
from tests.agent.waiting import eventually


class GuardProcess:
    """`start` may be called again after `stop` or `kill`. `options` are added to its command line."""

    def __init__(self, folder: Path, engine: Path, registries: tuple[str, ...] = (), *options: str) -> None:
        self.path = folder / "guard.sock"
        self.log = folder / "guard.log"
        self.process: subprocess.Popen[bytes] | None = None
        registry_options = [word for name in registries for word in ("--allow-registry", name)]
        self._options = ["--socket", str(self.path), "--engine", str(engine), *registry_options, *options]

    @property
    def address(self) -> str:
        return f"unix://{self.path}"

    def start(self, *options: str) -> "GuardProcess":
        with open(self.log, "ab") as journal:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "agent.guard", *self._options, *options],
                cwd="/",
                env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)},
                stderr=journal,
                stdin=subprocess.DEVNULL,
            )
        eventually(self._answers, "the guard listens", timeout_s=60)
        return self

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.journal()
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self.path)) == 0

    def journal(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def connections(self) -> int:
        """Open sockets besides the listening one, on either side of the guard."""
        assert self.process is not None
        links = [os.readlink(entry) for entry in Path(f"/proc/{self.process.pid}/fd").iterdir() if entry.is_symlink()]
        return sum(link.startswith("socket:") for link in links) - 1

    def rss_bytes(self) -> int:
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(60)
        self.process = None

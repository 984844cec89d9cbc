"""Children of bin/start: started, restarted when they crash, stopped together, and nothing of them left behind."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from gpunex.embedded import Process

RESTART_SECONDS = (1.0, 2.0, 5.0, 15.0, 30.0)
"""Waits before a crashed child is started again; the last one repeats."""
SETTLED_SECONDS = 60.0
"""A child that ran this long has recovered: its next crash waits the shortest time again."""
LOG_BYTES = 10 * 2**20
_PR_SET_CHILD_SUBREAPER = 36


@dataclass
class Child:
    """One supervised process. ``once``: it may end by itself, with 0; anything else is a crash."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    cwd: Path
    once: bool = False
    process: Process = field(init=False)
    crashes: int = 0
    started_at: float = 0.0
    restart_at: float | None = None
    finished: bool = False


class Supervisor:
    """Not thread-safe: one thread starts, watches and stops. ``say`` prints a line for the person watching."""

    def __init__(self, logs: Path, say: Callable[[str], None]) -> None:
        self.logs, self.say = logs, say
        self.children: list[Child] = []
        # What our children leave behind (a job's process whose agent ended) becomes our child and is stopped with us.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)

    def start(self, child: Child) -> Child:
        log = self.logs / f"{child.name}.log"
        if log.exists() and log.stat().st_size > LOG_BYTES:
            log.replace(log.with_suffix(".log.1"))
        child.process = Process(child.name, log)
        self.children.append(child)
        self._spawn(child)
        return child

    def _spawn(self, child: Child) -> None:
        child.restart_at = None
        child.started_at = time.monotonic()
        child.process.start(child.command, environment=child.environment, cwd=child.cwd)

    def processes(self) -> set[int]:
        return {child.process.child.pid for child in self.children if child.process.child}

    def watch(self) -> None:
        """One look at every child: note crashes, start again what is due."""
        now = time.monotonic()
        for child in self.children:
            if child.finished or child.process.running():
                continue
            if child.restart_at is None:
                self._ended(child, now)
            elif now >= child.restart_at:
                self.say(f"{child.name}: starting again")
                self._spawn(child)

    def _ended(self, child: Child, now: float) -> None:
        assert child.process.child is not None
        code = child.process.child.returncode
        if child.once and code == 0:
            child.finished = True
            return
        child.crashes = 0 if now - child.started_at > SETTLED_SECONDS else child.crashes
        wait = RESTART_SECONDS[min(child.crashes, len(RESTART_SECONDS) - 1)]
        child.crashes += 1
        child.restart_at = now + wait
        self.say(f"{child.name}: ended with {code}, starts again in {wait:.0f} s; see {child.process.log}")

    def stop(self, *, seconds: float) -> None:
        """Ask all children to end at once, then insist."""
        running = [child.process.child for child in self.children if child.process.running()]
        for process in running:
            if process is not None:
                process.terminate()
        deadline = time.monotonic() + seconds
        while any(process and process.poll() is None for process in running) and time.monotonic() < deadline:
            time.sleep(0.02)
        for process in running:
            if process is not None:
                # The whole group: a server that had to be killed cannot tell its workers.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self.children.clear()


def children_of(parent: int) -> list[int]:
    """Process ids whose parent is ``parent`` (Linux)."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == parent:
                    found.append(int(entry.name))
    return found


def reap_orphans(known: set[int]) -> None:
    """Wait for adopted processes that have ended, so that no zombie stays; our own children are their objects' business."""
    with suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            if ended.si_pid in known:
                return  # its object has to see it first; the next look goes on
            os.waitpid(ended.si_pid, os.WNOHANG)


def end_orphans(known: set[int], *, seconds: float) -> int:
    """End what our children left behind: asked first, killed after ``seconds``. Returns how many there were."""
    seen: set[int] = set()
    deadline = time.monotonic() + seconds
    while orphans := set(children_of(os.getpid())) - known:
        number = signal.SIGKILL if time.monotonic() > deadline else signal.SIGTERM
        for pid in orphans:
            if pid not in seen or number == signal.SIGKILL:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
        seen |= orphans
        reap_orphans(known)
        time.sleep(0.02)
    return len(seen)

"""Runtime of the demo hosts: a plain process per job. It isolates nothing and ignores the image."""

import fcntl
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent.clock import boot_id, boot_seconds
from agent.config import Settings, is_loopback
from agent.errors import AgentError
from agent.runtime import supervisor
from agent.runtime.base import (
    LOG_CUT_MARK,
    EngineFacts,
    EngineUnavailable,
    FoundJob,
    JobOrder,
    JobState,
    LogSlice,
    Observation,
    RuntimeRefused,
)

UNPRIVILEGED_USER = 65_534
# A supervisor writes its identity within milliseconds; on a machine this slow nothing else would work either.
_START_DEADLINE_S = 20.0
# struct flock of 64-bit Linux: type, whence, start, length, process.
_FLOCK = "hhqqi4x"


class ProcessRuntime:
    """Jobs are folders under `jobs/`; each has a supervisor of its own (agent.runtime.supervisor) that outlives us."""

    poll_interval_s = 0.1

    def __init__(self, settings: Settings, machine_id: str) -> None:
        """Raises AgentError unless the platform is on this machine: a stranger's command must never get here."""
        if not is_loopback(settings.url):
            raise AgentError("--runtime process: allowed only with a platform on this machine")
        self._machine_id = machine_id
        self._jobs = settings.state / "jobs"
        self._jobs.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Supervisors that we started are our children until we exit: they have to be waited for.
        self._supervisors: dict[str, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()

    def facts(self) -> EngineFacts:
        return EngineFacts(engine="process")

    def available(self) -> bool:
        return True

    def degraded(self) -> tuple[str, ...]:
        return ()

    def prepare(self, order: JobOrder, cancelled: Callable[[], bool]) -> str:
        if not order.plan.command:
            raise RuntimeRefused("container_create_failed", "no_command")
        return order.plan.image

    def start(self, order: JobOrder, image: str) -> None:
        folder = self._jobs / order.name
        folder.mkdir(mode=0o700, exist_ok=True)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        if not _lock_take(lock):
            # An earlier agent has started it and died before it could say so.
            os.close(lock)
            self._started_wait(folder)
            return
        try:
            if not (folder / "started.json").exists():
                (folder / "attempt").write_text(order.plan.attempt_id)
                self._spawn(order, folder, lock)
        finally:
            os.close(lock)
        self._started_wait(folder)

    def _spawn(self, order: JobOrder, folder: Path, lock: int) -> None:
        process = subprocess.Popen(
            [sys.executable, "-I", supervisor.__file__, str(folder)],
            env={},
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=(lock,),
        )
        with self._lock:
            self._supervisors[order.name] = process
        assert process.stdin is not None
        body = {
            "command": list(order.plan.command),
            "environment": order.plan.environment,
            "user": UNPRIVILEGED_USER if os.geteuid() == 0 else None,
            "log_limit_bytes": order.plan.log_limit_bytes,
            "cut_mark": LOG_CUT_MARK.decode(),
        }
        try:
            with process.stdin as pipe:
                pipe.write(json.dumps(body).encode())
        except BrokenPipeError:
            raise RuntimeRefused("container_create_failed", "supervisor_failed") from None

    def _started_wait(self, folder: Path) -> None:
        deadline = time.monotonic() + _START_DEADLINE_S
        while not (folder / "started.json").exists():
            if not _locked(folder):
                raise RuntimeRefused("container_create_failed", "supervisor_failed")
            if time.monotonic() > deadline:
                raise EngineUnavailable("the supervisor does not start")
            time.sleep(0.01)

    def adopt(self, name: str, log_limit_bytes: int) -> None:
        """Nothing to do: the supervisor has gone on writing to its files."""

    def observe(self, name: str) -> Observation:
        folder = self._jobs / name
        if not folder.exists():
            return Observation(state=JobState.MISSING)
        # The lock first: a supervisor that lets go of it has written its last word before.
        alive = _locked(folder)
        started, ended = _read(folder / "started.json"), _read(folder / "exit.json")
        if ended is not None:
            self._reap(name)
            return Observation(state=JobState.EXITED, exit_code=ended["exit_code"], ran_s=ended["ran_s"])
        if alive:
            if started is None:
                return Observation(state=JobState.CREATED)
            return Observation(state=JobState.RUNNING, ran_s=boot_seconds() - started["started_boot_s"])
        if started is None:
            return Observation(state=JobState.MISSING)
        self._reap(name)
        # The supervisor died without a last word, and the job with it (it asks the kernel for that).
        reason = "host_restart" if started["boot_id"] != boot_id() else "unknown"
        return Observation(state=JobState.EXITED, reason=reason, message_code="supervisor_lost")

    def terminate(self, name: str) -> None:
        self._signal(name, signal.SIGTERM)

    def kill(self, name: str) -> None:
        self._signal(name, signal.SIGUSR1)

    def _signal(self, name: str, number: signal.Signals) -> None:
        """To the supervisor and to nobody else: the process is pinned first, then its start time is compared."""
        started = _read(self._jobs / name / "started.json")
        if started is None or started["boot_id"] != boot_id():
            return
        try:
            process = os.pidfd_open(started["pid"])
        except ProcessLookupError:
            return
        try:
            if _start_ticks(started["pid"]) == started["start_ticks"]:
                signal.pidfd_send_signal(process, number)
        except ProcessLookupError:
            pass
        finally:
            os.close(process)

    def log_read(self, name: str, offset: int, limit: int) -> LogSlice:
        folder = self._jobs / name
        # Asked before reading: what is complete now cannot grow between the two.
        complete = (folder / "exit.json").exists() or not _locked(folder)
        try:
            with open(folder / "output", "rb") as output:
                output.seek(offset)
                content = output.read(limit)
                at_end = output.tell() >= os.fstat(output.fileno()).st_size
        except FileNotFoundError:
            content, at_end = b"", True
        return LogSlice(content=content, complete=complete and at_end)

    def disk_used_bytes(self, name: str) -> int | None:
        return None

    def release(self, name: str) -> None:
        self._reap(name)

    def forget(self, name: str) -> None:
        self._reap(name)
        started = _read(self._jobs / name / "started.json")
        workspace = Path(started["workspace"]) if started is not None else None
        # A supervisor that was killed could not do it; a folder that does not look like one of ours is not touched.
        if (
            workspace is not None
            and workspace.name.startswith(supervisor.WORKSPACE_PREFIX)
            and not workspace.is_symlink()
        ):
            shutil.rmtree(workspace, ignore_errors=True)
        shutil.rmtree(self._jobs / name, ignore_errors=True)

    def found(self) -> list[FoundJob]:
        jobs = []
        for folder in sorted(self._jobs.iterdir()):
            marker = folder / "attempt"
            jobs.append(FoundJob(name=folder.name, attempt_id=marker.read_text() if marker.exists() else None))
        return jobs

    def leftovers(self) -> list[str]:
        """A job's folder goes last and at once."""
        return []

    def tidy(self) -> None:
        """Nothing is kept for coming jobs."""

    def close(self) -> None:
        """Nothing is held: supervisors become children of init."""

    def _reap(self, name: str) -> None:
        with self._lock:
            process = self._supervisors.get(name)
            if process is not None and process.poll() is not None:
                del self._supervisors[name]


def _lock_take(lock: int) -> bool:
    """Take the lock on an open file; it lives as long as the file is open anywhere, also in a child that got it."""
    try:
        fcntl.fcntl(lock, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    except OSError:
        return False
    return True


def _locked(folder: Path) -> bool:
    """Whether a supervisor holds the folder's lock, which is to say: lives. Only asks, so it disturbs nobody."""
    try:
        lock = os.open(folder / "lock", os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        asked = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        answer = fcntl.fcntl(lock, fcntl.F_OFD_GETLK, asked)
        return bool(struct.unpack(_FLOCK, answer)[0] != fcntl.F_UNLCK)
    finally:
        os.close(lock)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        value: dict[str, Any] = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    return value


def _start_ticks(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(stat.rpartition(b")")[2].split()[19])

"""Parent of one demo job: outlives the agent, keeps the job's output, exit code and identity in files.

Started as `python -I supervisor.py FOLDER` in a session of its own, with the order as JSON on stdin.
It has inherited the folder's lock and holds it for as long as it lives, so "is it still running" is never answered
from a process number.
TERM is passed on to the job, SIGUSR1 becomes KILL. Imports nothing of ours: it must stay small, there is one per job.

    FOLDER/started.json   {pid, start_ticks, boot_id, started_boot_s, workspace}: written before the job's first instruction
    FOLDER/output         standard output and error as they came, up to the limit
    FOLDER/exit.json      {exit_code, ran_s}: written once the output is complete
"""

import contextlib
import ctypes
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
COMMAND_NOT_FOUND = 127
WORKSPACE_PREFIX = "gpunex-job-"
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_BLOCK = 65_536


def main(arguments: list[str]) -> int:
    folder = arguments[0]
    os.umask(0o077)
    signals = {signal.SIGTERM, signal.SIGUSR1}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        order = json.loads(sys.stdin.buffer.read())
    except ValueError:
        # The agent died while it was ordering: nothing has begun and nothing will.
        return 1
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    started = _boot_seconds()
    workspace = _workspace_make(order["user"])
    _write(folder, "started.json", {**_identity(), "started_boot_s": started, "workspace": workspace})
    try:
        exit_code = _run(folder, order, workspace)
    finally:
        _children_kill()
        shutil.rmtree(workspace, ignore_errors=True)
    _write(folder, "exit.json", {"exit_code": exit_code, "ran_s": _boot_seconds() - started})
    return 0


def _run(folder: str, order: dict[str, Any], workspace: str) -> int:
    """Run the command to its end and keep its output; the code as a shell would say it (128 + signal)."""
    environment = {"PATH": PATH, "HOME": workspace, **order["environment"]}
    user = order["user"]
    identity: dict[str, Any] = {} if user is None else {"user": user, "group": user, "extra_groups": []}
    with open(os.path.join(folder, "output"), "ab", buffering=0) as output:
        try:
            job = subprocess.Popen(
                order["command"],
                env=environment,
                cwd=workspace,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=_job_prepare,
                **identity,
            )
        except OSError as error:
            output.write(f"{order['command'][0]}: {error.strerror}\n".encode())
            return COMMAND_NOT_FOUND
        _signals_pass_on(job)
        _output_keep(job, output, order["log_limit_bytes"], order["cut_mark"].encode())
        code = job.wait()
    return 128 - code if code < 0 else code


def _job_prepare() -> None:
    """In the job, after it has lost its rights: it dies with its supervisor and leaves no core file."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def _signals_pass_on(job: "subprocess.Popen[bytes]") -> None:
    def pass_on(number: int, _frame: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            if job.returncode is None:
                os.killpg(job.pid, signal.SIGTERM if number == signal.SIGTERM else signal.SIGKILL)

    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGUSR1, pass_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGUSR1})


def _output_keep(job: "subprocess.Popen[bytes]", output: Any, limit: int, cut_mark: bytes) -> None:
    """Copy until the job has ended and its output is drained; a grandchild that keeps the pipe open does not count."""
    assert job.stdout is not None
    pipe = job.stdout.fileno()
    os.set_blocking(pipe, False)
    kept, cut = 0, False
    ended = False
    while True:
        try:
            block = os.read(pipe, _BLOCK)
            if not block:
                return
        except BlockingIOError:
            if ended:
                return
            ended = _ended_or_readable(job, pipe)
            continue
        room = block[: limit - kept]
        output.write(room)
        kept += len(room)
        if len(room) < len(block) and not cut:
            output.write(cut_mark)
            cut = True


def _ended_or_readable(job: "subprocess.Popen[bytes]", pipe: int) -> bool:
    """Wait for either; true once the job has ended (it stays unreaped, so that its number stays its own)."""
    process = os.pidfd_open(job.pid)
    try:
        ready, _, _ = select.select([process, pipe], [], [])
        return process in ready
    finally:
        os.close(process)


def _children_kill() -> None:
    """Whatever the job left behind ends with it; as subreaper we have inherited all of it."""
    while True:
        with open(f"/proc/self/task/{os.getpid()}/children") as listing:
            children = [int(each) for each in listing.read().split()]
        if not children:
            return
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        for child in children:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)


def _workspace_make(user: int | None) -> str:
    """An empty folder outside the agent's own, which the job's user could not even pass through."""
    workspace = tempfile.mkdtemp(prefix=WORKSPACE_PREFIX)
    if user is not None:
        os.chown(workspace, user, user)
    return workspace


def _identity() -> dict[str, Any]:
    with open("/proc/self/stat", "rb") as stat:
        start_ticks = int(stat.read().rpartition(b")")[2].split()[19])
    with open("/proc/sys/kernel/random/boot_id") as boot:
        return {"pid": os.getpid(), "start_ticks": start_ticks, "boot_id": boot.read().strip()}


def _boot_seconds() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _write(folder: str, name: str, value: dict[str, Any]) -> None:
    """Whole or not at all, also after a power cut."""
    partial = os.path.join(folder, name + ".partial")
    with open(partial, "w") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, os.path.join(folder, name))
    directory = os.open(folder, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

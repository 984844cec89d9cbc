"""Worker processes that die by SIGKILL at the n-th thing they do: a write, a commit, a call to a node, before or after it.

A worker is forked from the process that has everything imported already, so it costs a fork and a database connection.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import connection

from billing.chain.rpc import RpcClient

WORKER_SECONDS = 120.0
"""A pass with every call timing out takes a fraction of this: who takes longer hangs."""
LABEL_BYTES = 200


@dataclass(slots=True)
class Worker:
    """A forked process, and the pipe through which it says where it dies, or why it failed."""

    pid: int
    words: int


class Death:
    """Counts what a process does and kills it at ``moment`` (1 is the first thing; None: it lives)."""

    def __init__(self, moment: int | None, words: int) -> None:
        self.moment, self.words, self.seen = moment, words, 0

    def passes(self, label: str) -> None:
        self.seen += 1
        if self.seen == self.moment:
            os.write(self.words, label.encode()[:LABEL_BYTES])
            os.kill(os.getpid(), signal.SIGKILL)

    def statement(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        name = _statement_name(sql)
        if name.startswith("SELECT"):  # it leaves nothing behind: dying beside it is dying at what comes next
            return execute(sql, params, many, context)
        self.passes(f"before {name}")
        found = execute(sql, params, many, context)
        self.passes(f"after {name}")
        return found

    def around(self, name: Callable[[tuple[Any, ...]], str], original: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **named: Any) -> Any:
            label = name(arguments)
            self.passes(f"before {label}")
            found = original(*arguments, **named)
            self.passes(f"after {label}")
            return found

        return step


def worker_start(work: Callable[[], object], *, moment: int | None) -> Worker:
    """Fork a process that does ``work`` and dies at its ``moment``-th step."""
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        os.close(writer)
        return Worker(pid, reader)
    code = 1
    try:
        os.close(reader)
        _live(work, Death(moment, writer))
        code = 0
    except BaseException:
        os.write(writer, traceback.format_exc().encode()[-4000:])
    finally:
        os._exit(code)


def worker_wait(worker: Worker) -> str | None:
    """Where it was killed, or None when it came to its end.

    Raises:
        RuntimeError: it failed by itself (with its traceback), or hangs.
    """
    deadline = time.monotonic() + WORKER_SECONDS
    status = None
    while status is None:
        # It is gone within milliseconds; asking again costs less than a signal handler would explain.
        pid, status = os.waitpid(worker.pid, os.WNOHANG)
        if pid == 0:
            status = None
            if time.monotonic() > deadline:
                os.kill(worker.pid, signal.SIGKILL)
                os.waitpid(worker.pid, 0)
                raise RuntimeError(f"a worker did not end within {WORKER_SECONDS:.0f} s")
            time.sleep(0.002)
    with os.fdopen(worker.words, "rb") as words:
        text = words.read().decode(errors="replace")
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGKILL:
        return text or "from outside"
    if code != 0:
        raise RuntimeError(f"a worker failed by itself:\n{text}")
    return None


def _live(work: Callable[[], object], death: Death) -> None:
    # The parent's connection is its own: psycopg does not close it in a child, we only forget it.
    connection.connection = None
    connection.execute_wrappers.append(death.statement)
    database: Any = connection
    database._commit = death.around(lambda _: "COMMIT", database._commit)
    RpcClient._call = death.around(lambda arguments: arguments[1], RpcClient._call)  # type: ignore[method-assign]
    work()


def _statement_name(sql: str) -> str:
    """The verb and the table: what somebody who reads the report has to know of a statement."""
    words = sql.replace('"', " ").split()
    table = next((word.partition(".")[0] for word in words if word.startswith(("billing_", "core_", "accounts_"))), "")
    return f"{words[0].upper()} {table.rstrip('(,')}".strip()

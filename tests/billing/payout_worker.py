"""Worker processes that kill themselves, with SIGKILL, at a named point of a payout's pass.

    python -m tests.billing.payout_worker

imports the product once and forks a process per request, so that every kill point can have its real Celery worker without
paying for its imports; tests.billing.nursery speaks to it, one JSON object a line. The product knows nothing of this: the
points are its steps, wrapped from outside.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpunex.settings")
django.setup()

from django.conf import settings  # noqa: E402
from django.db import connections  # noqa: E402

from billing.chain.rpc import RpcClient  # noqa: E402
from billing.services.payouts import advance  # noqa: E402
from gpunex.celery import app  # noqa: E402
from gpunex.embedded import die_with_parent  # noqa: E402

WORKER = ["worker", "--queues", "money", "--pool", "solo", "--loglevel", "WARNING"]
WORKER += ["--without-mingle", "--without-gossip", "--without-heartbeat"]


def die(*_: Any, **__: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def die_before(owner: Any, name: str) -> None:
    setattr(owner, name, die)


def die_after(owner: Any, name: str) -> None:
    original: Callable[..., Any] = getattr(owner, name)

    def step(*arguments: Any, **named: Any) -> Any:
        original(*arguments, **named)
        die()

    setattr(owner, name, step)


POINTS: dict[str, Callable[[], None]] = {
    "before_the_lock": lambda: die_before(advance.PayoutPass, "claim"),
    "after_build": lambda: die_after(advance.PayoutPass, "build"),
    "after_sign": lambda: die_after(advance.PayoutPass, "sign"),
    "after_insert_before_commit": lambda: die_after(advance.PayoutPass, "insert"),
    "after_commit_before_send": lambda: die_after(advance.PayoutPass, "record"),
    # The node has the bytes and has answered; nobody here has read what.
    "after_send_before_reply": lambda: die_after(RpcClient, "send"),
    "while_polling": lambda: die_after(advance.PayoutPass, "look"),
    "after_finalized_before_ledger": lambda: die_before(advance, "payout_settle"),
    "between_expired_and_next": lambda: die_after(advance.PayoutPass, "expire"),
    "never": lambda: None,
}


def work(request: dict[str, Any]) -> None:
    """In the forked process: a Celery worker on the money queue, or one pass over one payout."""
    for name, value in request["settings"].items():
        setattr(settings, name, value)
    for alias in connections:
        connections[alias].settings_dict["NAME"] = request["database"]
    POINTS[request["point"]]()
    if request["payout"] is None:
        app.worker_main(WORKER)
    else:
        now = datetime.fromtimestamp(request["now"], UTC)
        print(advance.payout_advance(payout_id=UUID(request["payout"]), now=now))


def spawn(request: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        die_with_parent(signal.SIGKILL)()
        _redirect(Path(request["log"]))
        work(request)
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _redirect(log: Path) -> None:
    """No input, and all output to the file: the pipe to the test is the parent's alone."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number, descriptor in ((0, nothing), (1, output), (2, output)):
        os.dup2(descriptor, number)


def main() -> None:
    app.loader.import_default_modules()
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "spawn":
            answer: int | None = spawn(request)
        else:
            pid, status = os.waitpid(request["pid"], 0 if request["do"] == "wait" else os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()

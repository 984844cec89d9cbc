"""A worker process that takes one payout a pass further and kills itself, with SIGKILL, at a named point.

    python -m tests.billing.payout_worker POINT PAYOUT_ID UNIX_NOW     one pass, in this process
    python -m tests.billing.payout_worker POINT celery                 a real Celery worker on the money queue

The product knows nothing of this: the points are its steps, wrapped from outside.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID


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


def main() -> None:
    point, *rest = sys.argv[1:]
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpunex.settings")
    import django  # noqa: PLC0415

    django.setup()
    from billing.chain.rpc import RpcClient  # noqa: PLC0415
    from billing.services.payouts import advance  # noqa: PLC0415

    points: dict[str, Callable[[], None]] = {
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
    points[point]()
    if rest == ["celery"]:
        from gpunex.celery import app  # noqa: PLC0415

        app.worker_main(["worker", "--queues", "money", "--pool", "solo", "--loglevel", "WARNING", "--without-mingle"])
        return
    payout_id, unix_now = rest
    now = datetime.fromtimestamp(float(unix_now), UTC)
    print(advance.payout_advance(payout_id=UUID(payout_id), now=now))


if __name__ == "__main__":
    main()

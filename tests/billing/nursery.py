"""Worker processes for payout tests: forked from one that has imported the product (tests.billing.payout_worker)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from celery import current_app
from django.db import connection

from billing.models import Payout
from core import jobs
from tests.agent.waiting import eventually
from tests.billing.chain.world import World
from tests.billing.conftest import chain_settings
from tests.services import ROOT

STEP_SECONDS = 300
"""Past the lease of a worker that was killed, past every pause between two looks."""
SWEEPS_MAX = 8
PATIENCE_SECONDS = 60.0


class Nursery:
    """Started once for a module's tests; a context manager."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.billing.payout_worker"],
            cwd=ROOT,
            env=os.environ | {"PROCESS": "worker"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.communicate()  # its input ends, and so does it; its children with it
        assert self.process.returncode == 0

    def ask(self, **request: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def one_pass(self, point: str, payout: Payout, chain: World, *, now: datetime) -> Worker:
        """A process that takes the payout a pass further and dies at the point."""
        return Worker(self, chain, point=point, payout=str(payout.pk), now=now.timestamp())

    def celery(self, point: str, chain: World) -> Worker:
        """A real Celery worker on the money queue, which dies at the point of the first payout it gets."""
        return Worker(self, chain, point=point)


class Worker:
    """One process. Time in it runs ahead of ours, as far as ``settle`` moves it."""

    def __init__(
        self, nursery: Nursery, chain: World, *, point: str, payout: str | None = None, now: float | None = None
    ) -> None:
        nursery.count += 1
        self.nursery, self.chain, self.ahead = nursery, chain, 0
        self.clock, self.log = (nursery.folder / f"{nursery.count}.{name}" for name in ("clock", "log"))
        settings = chain_settings(chain) | {"CLOCK": "core.clock.FileClock", "CLOCK_FILE": str(self.clock)}
        database = connection.settings_dict["NAME"]
        self.pid = nursery.ask(
            do="spawn", point=point, payout=payout, now=now, settings=settings, database=database, log=str(self.log)
        )

    def killed(self) -> bool:
        """Wait until it has ended: by SIGKILL?"""
        code = self.nursery.ask(do="wait", pid=self.pid)
        assert code == -signal.SIGKILL, self.log.read_text()
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.nursery.ask(do="wait", pid=self.pid)

    def settle(self, payout: Payout) -> None:
        """Sweep after sweep, as beat sends them, minutes and blocks apart, until the payout is settled."""
        for _ in range(SWEEPS_MAX):
            self._sweep(payout)
            if payout.status == Payout.Status.SETTLED:
                return
            self.chain.finalize()
        raise AssertionError(f"not settled after {SWEEPS_MAX} sweeps: {self.log.read_text()}")

    def _sweep(self, payout: Payout) -> None:
        before = payout.next_look_at
        self.ahead += STEP_SECONDS
        self.clock.write_text(str(self.ahead))
        sweep_send()

        def moved() -> bool:
            assert self.nursery.ask(do="poll", pid=self.pid) is None, self.log.read_text()
            payout.refresh_from_db()
            return payout.status == Payout.Status.SETTLED or payout.next_look_at != before

        try:
            eventually(moved, "the sweep took the payout a pass further", PATIENCE_SECONDS)
        except AssertionError as error:
            error.add_note(self.log.read_text())
            raise

    def repeat(self, payout: Payout) -> None:
        """The job's message delivered again, and one sweep more behind it; returns when the job is done."""
        jobs.enqueue("billing.payout_submit", payout_id=str(payout.pk))
        sweep_send()
        eventually(lambda: money_queue() == 0, "the queue is worked off", PATIENCE_SECONDS)


def sweep_send() -> None:
    """Beat's message. Beat sends it again every few seconds and lets it expire; this one waits for a worker that is slow."""
    current_app.send_task("billing.payouts_sweep")


def money_queue() -> int:
    """How many messages wait for a money worker."""
    with current_app.connection_for_write() as broker:
        return int(broker.default_channel._size("money"))


def money_queue_empty() -> None:
    """Forget what earlier tests on this Valkey left in the queue: a worker would take it up first."""
    with current_app.connection_for_write() as broker:
        broker.default_channel.queue_purge("money")

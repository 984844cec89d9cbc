"""Round after round on one stage, and the report."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

from django.contrib.auth.models import Permission

from accounts.models import User
from billing.management.torture.rounds import FIRST_MONDAY, Round, Tally, TortureFound
from billing.management.torture.stage import stage
from billing.services import payouts_run, payouts_sweep

REPLAY = "manage.py torture_payouts --seed {seed} --first {number} --rounds 1"


def rounds_play(
    folder: Path, *, seed: int, first: int, rounds: int, tally: Tally, now: datetime, say: Callable[[str], object]
) -> None:
    """Play the rounds ``first`` to ``first + rounds - 1`` on a new chain in ``folder`` and the present, empty database.

    Raises TortureRefused (before anything is done) and TortureFound (with round and seed).
    """
    with stage(folder, now=now) as on:
        person = _person()
        # Once in this process: what Django works out at its first query is then there in every fork.
        payouts_run(as_of=(FIRST_MONDAY - timedelta(weeks=1)).date(), now=FIRST_MONDAY)
        payouts_sweep(now=FIRST_MONDAY)
        for number in range(first, first + rounds):
            began = time.monotonic()
            try:
                Round(on, person, tally, seed=seed, number=number).play()
            except TortureFound as found:
                again = REPLAY.format(seed=seed, number=number)
                raise TortureFound(f"round {number} of seed {seed}: {found}\nagain: {again}") from found
            finally:
                say(f"round {number}: {time.monotonic() - began:.2f} s")
        tally.faults.update(on.control.faults_met())


def report(tally: Tally, *, seed: int, seconds: float) -> Iterator[str]:
    """Lines for people: what was survived."""
    yield f"{tally.rounds} rounds of seed {seed} in {seconds:.0f} s: every payout is on chain once, the books are right"
    yield f"{tally.payouts} payouts, {tally.workers} workers; attempts: {_counts(tally.attempts)}"
    yield f"{tally.kills.total()} workers were killed:"
    yield from _table(tally.kills)
    yield f"{tally.faults.total()} calls went wrong:"
    yield from _table(tally.faults)
    yield f"on chain: {_counts(tally.events)}; a person was asked {tally.asked} times"


def _table(counted: Counter[str]) -> Iterator[str]:
    for name, count in counted.most_common():
        yield f"  {count:6}  {name}"


def _counts(counted: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counted.most_common()) or "none"


def _person() -> User:
    """Who looks at payouts of unknown fate."""
    user = User.objects.create(email="torture@gpunex.example", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="change_payout", content_type__app_label="billing"))
    return user

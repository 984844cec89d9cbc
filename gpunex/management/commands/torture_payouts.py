"""``manage.py torture_payouts --rounds N [--seed S]``: does every payout arrive once, whatever dies?

It starts a PostgreSQL and a Solana network of its own in a temporary folder, and touches no other.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import SystemRandom
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection

from billing.management.torture.play import report, rounds_play
from billing.management.torture.rounds import Tally, TortureFound
from billing.management.torture.stage import TortureRefused
from core import clock
from gpunex.embedded import APP_ROLE, OWNER_ROLE, EmbeddedError, Postgres

EPOCH = 50
"""Rounds on one chain and one database; then both are new, so that a round costs the same from the first to the last."""
TEMPLATE = "template_gpunex"
SEED_MAX = 2**32


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


class Command(BaseCommand):
    help = "Kill payout workers at random points while nodes misbehave; look whether everybody is paid exactly once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--rounds", type=_positive, required=True, help="how many")
        parser.add_argument("--seed", type=int, default=None, help="the same seed plays the same rounds")
        parser.add_argument(
            "--first", type=int, default=0, metavar="ROUND", help="the first round's number (to see one again)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.DEMO:
            raise CommandError("DEMO: found 0, allowed 1: nothing is tortured where real money may be.")
        seed = SystemRandom().randrange(SEED_MAX) if options["seed"] is None else options["seed"]
        last = options["first"] + options["rounds"]
        tally, began = Tally(), time.monotonic()
        say: Callable[[str], object] = self.stdout.write if options["verbosity"] > 1 else lambda text: None
        self.stdout.write(f"seed {seed}")
        try:
            with _postgres() as (folder, postgres):
                for first in range(options["first"], last, EPOCH):
                    with _database(postgres, f"torture_{first}"):
                        rounds = min(EPOCH, last - first)
                        place = folder / f"chain_{first}"
                        rounds_play(place, seed=seed, first=first, rounds=rounds, tally=tally, now=clock.now(), say=say)
                    shutil.rmtree(place, ignore_errors=True)
        except (EmbeddedError, TortureRefused, TortureFound) as error:
            raise CommandError(str(error)) from error
        for line in report(tally, seed=seed, seconds=time.monotonic() - began):
            self.stdout.write(line)


@contextmanager
def _postgres() -> Iterator[tuple[Path, Postgres]]:
    folder = Path(tempfile.mkdtemp(prefix="gpunex-torture-"))
    folder.chmod(0o711)
    postgres = Postgres(folder, durable=False)  # processes are killed here, not machines
    try:
        postgres.start()
        postgres.create_roles()
        postgres.create_database(TEMPLATE)
        _migrate(postgres)
        yield folder, postgres
    finally:
        postgres.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _migrate(postgres: Postgres) -> None:
    environment = {name: postgres.url(role, TEMPLATE) for name, role in URLS.items()}
    command = [sys.executable, "manage.py", "migrate", "--database", "owner", "--verbosity", "0"]
    done = subprocess.run(command, cwd=settings.BASE_DIR, env=_environment(environment), capture_output=True, text=True)
    if done.returncode != 0:
        raise EmbeddedError(f"the migrations failed: {done.stderr[-2000:]}")


URLS = {"DATABASE_URL": APP_ROLE, "DATABASE_OWNER_URL": OWNER_ROLE}


def _environment(more: dict[str, str]) -> dict[str, str]:
    return os.environ | more


@contextmanager
def _database(postgres: Postgres, name: str) -> Iterator[None]:
    """Django's connection points at a new, empty database; afterwards where it did."""
    postgres.create_database(name, template=TEMPLATE)
    before = dict(connection.settings_dict)
    connection.close()
    connection.settings_dict.update(
        NAME=name, HOST="127.0.0.1", PORT=postgres.port, USER=APP_ROLE, PASSWORD=postgres.password(APP_ROLE)
    )
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict.update(before)
        postgres.drop_database(name)

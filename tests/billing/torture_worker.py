"""A short torture on the test's own database, in a process of its own: workers are forked, and pytest has threads.

    python -m tests.billing.torture_worker FOLDER SEED FIRST ROUNDS [GUARD]

GUARD names what is taken away from the product first.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gpunex.settings")
django.setup()

from django.db import connection  # noqa: E402

from billing.chain import fate  # noqa: E402
from billing.management.torture.play import report, rounds_play  # noqa: E402
from billing.management.torture.rounds import Tally, TortureFound  # noqa: E402
from billing.management.torture.stage import TortureRefused  # noqa: E402
from core import clock  # noqa: E402


def _no_proof_of_expiry() -> None:
    """What a node does not know is taken for expired."""
    fate._doubt_of_expiry = lambda rpc, payout: None


GUARDS: dict[str, Callable[[], None]] = {
    "none": lambda: None,
    "proof_of_expiry": _no_proof_of_expiry,
}


def main(folder: str, seed: str, first: str, rounds: str, guard: str = "none") -> int:
    GUARDS[guard]()
    tally, began = Tally(), monotonic()
    options: dict[str, Any] = {"seed": int(seed), "first": int(first), "rounds": int(rounds), "tally": tally}
    try:
        rounds_play(Path(folder), now=clock.now(), say=lambda text: print(text, file=sys.stderr), **options)
    except (TortureFound, TortureRefused) as error:
        print(error)
        return 1
    for line in report(tally, seed=int(seed), seconds=monotonic() - began):
        print(line)
    connection.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

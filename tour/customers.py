"""``python -m tour.customers --data DIR``: the demo's customers, through the doors every customer uses.

bin/start runs it beside its hosts. Ravi pays in and runs his first jobs, once. The others keep a few GPUs rented, so that
market, earnings and usage live; they stop renting before their money ends, and top it up at the next start.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from itertools import count
from pathlib import Path
from typing import Any

import httpx

from tour.guide import Guide
from tour.steps import pay_in
from tour.visitor import NotSeen
from tour.work import FIRST_WORK, ROTA, Work

LOOK_SECONDS = 15.0
AT_ONCE = 2
"""Jobs of one customer: some GPUs are rented at any time, most stay free, and two cores do not notice."""
FIRST_DEPOSIT, DEPOSIT = "25", "250"
TOP_UP_MICRO = 120_000_000
RESERVE_MICRO = 40_000_000
"""Below it nobody starts another job: a customer with nothing left is no picture of a market."""
PAGE = 25
"""Jobs on the first page of the API; whoever fills it has been here for a while."""
ENDED = ("succeeded", "failed", "cancelled", "lost")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tour.customers")
    parser.add_argument("--data", type=Path, required=True)
    options = parser.parse_args(arguments)
    try:
        guide = Guide.of(None, options.data)
        guide.logins |= json.loads((options.data / "customers.json").read_text())
    except (NotSeen, OSError, ValueError) as error:
        print(f"the demo's customers: {error}", file=sys.stderr)
        return 1
    for turn in count():
        for who in ("ravi", *ROTA):
            try:
                _first_work(guide) if who == "ravi" else _work(guide, who, turn)
            except (NotSeen, httpx.HTTPError, KeyError) as error:
                print(f"{who}: {error!r}"[:600], file=sys.stderr, flush=True)
        time.sleep(LOOK_SECONDS)
    return 0


def _first_work(guide: Guide) -> None:
    ravi = guide.visitor("ravi")
    if not ravi.api("billing/history")["history"]:
        pay_in(guide, "ravi", FIRST_DEPOSIT, guide.wallet_of("ravi"))
    for work in first_work_left(ravi.api("jobs")["jobs"]):
        _submit(guide, "ravi", work)


def first_work_left(jobs: list[dict[str, Any]]) -> list[Work]:
    """What of FIRST_WORK Ravi has not ordered yet, given the first page of his jobs."""
    known = {job["name"] for job in jobs}
    return [] if len(jobs) >= PAGE else [work for work in FIRST_WORK if work.name not in known]


def _work(guide: Guide, who: str, turn: int) -> None:
    customer = guide.visitor(who)
    available = customer.api("billing/balance")["available_micro"]
    if turn == 0 and available < TOP_UP_MICRO:
        pay_in(guide, who, DEPOSIT, guide.wallet_of(who))
        available = customer.api("billing/balance")["available_micro"]
    if (work := next_work(customer.api("jobs")["jobs"], ROTA[who], available)) is not None:
        _submit(guide, who, work)


def next_work(jobs: list[dict[str, Any]], rota: tuple[Work, ...], available_micro: int) -> Work | None:
    """The rota's next, or None while enough runs or too little money is left. ``jobs``: newest first."""
    running = [job["name"] for job in jobs if job["status"] not in ENDED]
    if len(running) >= AT_ONCE or available_micro < RESERVE_MICRO:
        return None
    names = [work.name for work in rota]
    last = next((names.index(job["name"]) for job in jobs if job["name"] in names), -1)
    following = rota[last + 1 :] + rota[: last + 1]
    return next((work for work in following if work.name not in running), None)


def _submit(guide: Guide, who: str, work: Work) -> None:
    customer = guide.visitor(who)
    for row in customer.api("market/listings", model=work.model, limit="100")["listings"]:
        if row["provider"] == work.provider and row["gpus_free"] >= work.gpus:
            page = customer.get(f"/jobs/new/?listing={row['id']}")
            customer.submit(
                page,
                page.form("image"),
                name=work.name,
                image=work.image,
                command=work.command,
                gpu_count=str(work.gpus),
                time_limit_s="1",
            )
            return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

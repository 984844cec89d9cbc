"""The registries that cross apps: explicit lists, no discovery. Read this file to know who hears what."""

from __future__ import annotations

from core.news import Wiring

NEWS = Wiring(
    topics={
        "provider.state": (),
        "machine.state": (),
        "machine.inventory": ("benchmarks.runs_request_for_machine",),
        "schedule.version": (),
        "benchmark.verdict": (),
        "machine.flip": (),
        "provider.score": (),
    },
    handlers={
        "benchmarks.runs_request_for_machine": "benchmarks.services.runs_request_for_machine",
    },
)

INVARIANTS: list[str] = [
    "billing.invariants.ZeroSum",
    "billing.invariants.LiveBalances",
    "billing.invariants.HeldIsOpenHolds",
    "billing.invariants.PayoutsArePosted",
    "billing.invariants.EarningLinesAddUp",
    "billing.invariants.DepositsArePosted",
]

"""What goes wrong on the chain's side in a round, drawn from the round's own random numbers."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from billing.chain.localnet.client import LocalnetControl
from billing.chain.localnet.faults import FaultKind
from billing.management.torture.stage import FINALIZED_AFTER

METHODS = (
    *("getAccountInfo", "getBlockHeight", "getFirstAvailableBlock", "getGenesisHash", "getLatestBlockhash"),
    *("getSignatureStatuses", "getSignaturesForAddress", "getSlot", "getTransaction", "minimumLedgerSlot"),
    *("sendTransaction", "simulateTransaction"),
)
"""All that a payout's pass asks of a node."""
ELSEWHERE = tuple(kind for kind in FaultKind if kind is not FaultKind.LOSE_TRANSACTION)
SLOW_SECONDS = 0.05
EXPIRY_BLOCKS = (151, 200)
"""After so many blocks what was signed before can land no more, or just so."""


class Chaos:
    """Turns the levers of one round; ``events`` counts those that are no fault of a method."""

    def __init__(self, control: LocalnetControl, rng: Random, events: Counter[str]) -> None:
        self.control, self.rng, self.events = control, rng, events

    def step(self) -> None:
        """Between two workers: some faults that wait for their calls, something about the chain, some blocks."""
        for _ in range(self.rng.choice((0, 1, 1, 2, 3))):
            self._fault()
        if self.rng.random() < 0.5:
            self.rng.choice(
                (self._rollback, self._lag, self._fork, self._hold, self._release, self._expire, self._prune)
            )()
        self.control.tick(self.rng.choice((1, 1, 2, 3, FINALIZED_AFTER, 2 * FINALIZED_AFTER)))

    def calm(self) -> None:
        """Everything is well again; what was done stays done."""
        self.control.clear_faults()
        self.control.release()
        self.control.heal()
        self.control.lag(0, endpoint="primary")
        self.control.prune(1, endpoint="primary")

    def _fault(self) -> None:
        method = self.rng.choice(METHODS)
        kinds = tuple(FaultKind) if method == "sendTransaction" else ELSEWHERE
        self.control.fault(
            method,
            self.rng.choice(kinds).value,
            endpoint=self.rng.choice(("primary", "primary", "second")),
            times=self.rng.choice((1, 1, 2, 5)),
            seconds=SLOW_SECONDS,
        )

    def _rollback(self) -> None:
        blocks, kept = self.rng.randint(1, FINALIZED_AFTER - 1), self.rng.random() < 0.5
        self.control.rollback(blocks, keep_pending=kept)
        self._count("rollback, transactions kept" if kept else "rollback, transactions lost")

    def _lag(self) -> None:
        endpoint = self.rng.choice(("primary", "second"))
        self.control.lag(self.rng.choice((1, FINALIZED_AFTER, 40, 200)), endpoint=endpoint)
        self._count(f"lag of the {endpoint} node")

    def _fork(self) -> None:
        self.control.fork(self.rng.randint(1, 2 * FINALIZED_AFTER))
        self._count("fork of the second node")

    def _hold(self) -> None:
        self.control.hold()
        self._count("transactions held back")

    def _release(self) -> None:
        self.control.release()
        self.control.heal()

    def _expire(self) -> None:
        self.control.tick(self.rng.randint(*EXPIRY_BLOCKS))
        self._count("expiry")

    def _prune(self) -> None:
        self.control.prune(self._slot(), endpoint=self.rng.choice(("primary", "second")))
        self._count("history forgotten")

    def _slot(self) -> int:
        facts: dict[str, Any] = self.control.facts()
        return max(1, int(facts["height"]))

    def _count(self, event: str) -> None:
        self.events[event] += 1

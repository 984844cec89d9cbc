"""Answering the platform's challenge, whoever multiplies: start, commit, open; each repeated until it is answered."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar
from uuid import uuid4

from agent.bench.base import BenchmarkRefused, Cancelled, ChallengeDesk
from agent.client import ClientError, Refused, SlowDown
from agent.pacing import Backoff
from agent_protocol.messages import BenchCommit, BenchmarkPlan, BenchOpen, BenchOpening, BenchStart

log = logging.getLogger("agent.bench")

Answer = TypeVar("Answer")
Row = tuple[int, int]


@dataclass(frozen=True)
class Chain:
    """The root of every round; `product_s`: what the device multiplied, null where that means nothing."""

    roots: tuple[bytes, ...]
    product_s: float | None


class Prover(Protocol):
    """Whoever multiplies. Both raise BenchmarkRefused."""

    def chain(self, seed: str) -> Chain:
        """All rounds under the platform's seed."""

    def open(self, seed: str, chain: Chain, rows: Sequence[Row]) -> list[tuple[bytes, list[bytes]]]:
        """Leaf and path of each (round, row), in order."""


def challenge_answer(desk: ChallengeDesk, plan: BenchmarkPlan, prover: Prover, cancelled: Cancelled) -> None:
    """The whole conversation. Raises BenchmarkRefused: what the prover says, `challenge_refused`, `interrupted`."""
    nonce, attempt = plan.challenge.nonce, str(uuid4())
    started = _asked(
        lambda: desk.bench_start(plan.run_id, BenchStart(nonce=nonce, attempt=attempt)), cancelled, "start"
    )
    chain = prover.chain(started.seed)
    commit = BenchCommit(
        nonce=nonce,
        attempt=attempt,
        roots=tuple(root.hex() for root in chain.roots),
        product_s=chain.product_s,
    )
    committed = _asked(lambda: desk.bench_commit(plan.run_id, commit), cancelled, "commit")
    rows = [(each.round, each.row) for each in committed.openings]
    opened = prover.open(started.seed, chain, rows)
    openings = tuple(
        BenchOpening(round=number, row=row, leaf=leaf.hex(), path=tuple(step.hex() for step in path))
        for (number, row), (leaf, path) in zip(rows, opened, strict=True)
    )
    opening = BenchOpen(nonce=nonce, attempt=attempt, openings=openings)
    _asked(lambda: desk.bench_open(plan.run_id, opening), cancelled, "open")


def _asked(ask: Callable[[], Answer], cancelled: Cancelled, step: str) -> Answer:
    """The answer, however often it takes: the clock runs, so the first repetition comes quickly."""
    backoff = Backoff(0.2, 10.0)
    while True:
        try:
            return ask()
        except Refused as error:
            log.error("the challenge was refused", extra={"step": step, "code": error.code})
            raise BenchmarkRefused("challenge_refused") from None
        except SlowDown as error:
            wait = error.retry_after_s
        except ClientError as error:
            log.warning("the challenge waits", extra={"step": step, "why": str(error)})
            wait = backoff.next()
        if cancelled(wait):
            raise BenchmarkRefused("interrupted")

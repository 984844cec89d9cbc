"""One round: payouts are planned, carried out by workers that die while the chain misbehaves, brought to their end, judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random

from accounts.models import Party, User
from billing.chain.history import history_since
from billing.chain.transactions import payout_ids_in_memo, token_account_address
from billing.management.torture.chaos import Chaos
from billing.management.torture.killing import worker_start, worker_wait
from billing.management.torture.stage import FINALIZED_AFTER, PAYEES, Stage
from billing.models import Payout, PayoutAttempt
from billing.selectors.balances import in_flight_of, payable_of
from billing.services import payout_resolve, payout_run_start, payouts_run, payouts_sweep, treasury_read
from core.errors import DomainError
from core.invariants import check_all

FIRST_MONDAY = datetime(2030, 1, 7, tzinfo=UTC)
"""Round n is paid on the n-th Monday from here: a period is planned once, so each round has its own."""
STEPS = (3, 8)
MOMENTS = 60
"""A pass over three payouts does about so many things: a worker is as likely to die early as late, or not at all."""
AMOUNT_MAX_MICRO = 20_000_000
WAITS = (2, 10, 130, 700, 3_700)
"""Seconds until the next worker: the next sweep, the one after, past a lease, past the pauses of unknown and blocked ones."""
CALM_STEPS = 25
CALM_SECONDS = 3_700
"""Past every pause, and every payout that can go on does."""
CALM_BLOCKS = (2 * FINALIZED_AFTER, 170)


class TortureFound(Exception):
    """What must never happen has happened; the text says what, round and seed say how to see it again."""


@dataclass(slots=True)
class Tally:
    """What was done, counted."""

    rounds: int = 0
    payouts: int = 0
    workers: int = 0
    attempts: Counter[str] = field(default_factory=Counter)
    kills: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    asked: int = 0
    """How often a person had to look at a payout of unknown fate."""


class Round:
    """Everything about a round follows from ``seed`` and ``number``, but for what two workers at once make of each other."""

    def __init__(self, on: Stage, person: User, tally: Tally, *, seed: int, number: int) -> None:
        self.on, self.person, self.tally, self.number = on, person, tally, number
        self.rng = Random(f"{seed}/{number}")
        self.chaos = Chaos(on.control, self.rng, tally.events)
        self.monday = FIRST_MONDAY + timedelta(weeks=number)
        on.now = self.monday + timedelta(hours=1)
        self.slot = on.nodes[0].slot(commitment="finalized")

    def play(self) -> None:
        """Raises TortureFound."""
        try:
            due = self._earned()
            self._plan()
            for _ in range(self.rng.randint(*STEPS)):
                self.chaos.step()
                self._workers(2 if self.rng.random() < 0.25 else 1, self._sweep)
                self.on.now += timedelta(seconds=self.rng.choice(WAITS))
            self._end()
            self._judge(due)
        except RuntimeError as error:
            raise TortureFound(str(error)) from error

    def _earned(self) -> dict[Party, int]:
        """Who has earned how much, here and there in a new wallet."""
        due = {}
        for party in self.rng.sample(self.on.payees, self.rng.randint(1, PAYEES - 1)):
            if self.rng.random() < 0.3 or not party.destinations.exists():
                self.on.wallet_new(party, self.rng)
            amount = due[party] = self.rng.randint(10_000, AMOUNT_MAX_MICRO)
            source = f"{self.number}:{party.handle}"
            self.on.earn(party, amount, at=self.monday - timedelta(days=1), source=source)
        return due

    def _plan(self) -> None:
        """By workers that die, too; the last one does not."""
        for last in (False, False, True):
            self._workers(1, self._run, deadly=not last)
            self.on.now += timedelta(seconds=self.rng.choice(WAITS))

    def _run(self) -> None:
        for run in payouts_run(as_of=self.monday.date(), now=self.on.now):
            payout_run_start(run_id=run.pk, now=self.on.now)

    def _sweep(self) -> None:
        payouts_sweep(now=self.on.now)

    def _workers(self, count: int, work: Callable[[], object], *, deadly: bool = True) -> None:
        moments = [self.rng.randint(1, MOMENTS) if deadly and self.rng.random() < 0.8 else None for _ in range(count)]
        for worker in [worker_start(work, moment=moment) for moment in moments]:
            point = worker_wait(worker)
            self.tally.workers += 1
            if point is not None:
                self.tally.kills[point] += 1

    def _end(self) -> None:
        """Nobody dies any more and the nodes are well: sweep after sweep, until nothing is open."""
        self.chaos.calm()
        for step in range(CALM_STEPS):
            self.on.now += timedelta(seconds=CALM_SECONDS)
            self._workers(1, self._run if step == 0 else self._sweep, deadly=False)
            self.on.control.tick(CALM_BLOCKS[step % len(CALM_BLOCKS)])
            for payout in Payout.objects.filter(status=Payout.Status.UNKNOWN):
                self._ask(payout)
            if step and not Payout.objects.filter(status__in=Payout.OPEN).exists():
                return
        raise TortureFound(f"still open after {CALM_STEPS} calm sweeps: {_statuses()}")

    def _ask(self, payout: Payout) -> None:
        self.tally.asked += 1
        with suppress(DomainError):  # nothing is proven yet; the next look may
            payout_resolve(payout=payout, actor=self.person, reason="the nodes are well again", now=self.on.now)

    # What has to be true

    def _judge(self, due: dict[Party, int]) -> None:
        self.on.control.tick(2 * FINALIZED_AFTER)
        treasury_read(now=self.on.now)
        payouts = list(Payout.objects.filter(run__period_end=self.monday.date()).select_related("party"))
        found = [*self._of_payouts(payouts), *self._of_payees(payouts, due)]
        found += [f"{violation.subject}: {violation.message}" for violation in check_all()]
        if found:
            raise TortureFound("; ".join(found))
        self.tally.rounds += 1
        self.tally.payouts += len(payouts)
        self.tally.attempts.update(PayoutAttempt.objects.filter(payout__in=payouts).values_list("state", flat=True))

    def _of_payouts(self, payouts: list[Payout]) -> list[str]:
        found = []
        for node in self.on.nodes:
            memos: Counter[object] = Counter()
            for entry in history_since(node, self.on.facts["hot_wallet"], self.slot):
                if entry.error is None:
                    memos.update(payout_ids_in_memo(entry.memo))
            found += [
                f"payout {payout.pk} is on chain {times} times, by {node.name}"
                for payout in payouts
                if (times := memos.pop(payout.pk, 0)) != 1
            ]
            found += [f"payout {key} is on chain, and none of this round" for key in memos]
        for payout in payouts:
            settled = payout.attempts.filter(state=PayoutAttempt.State.SETTLED).count()
            if (payout.status, settled) != (Payout.Status.SETTLED, 1):
                found.append(f"payout {payout.pk} is {payout.status} by {settled} settled attempts")
        return found

    def _of_payees(self, payouts: list[Payout], due: dict[Party, int]) -> list[str]:
        paid = {payout.party: payout for payout in payouts}
        found = []
        if len(payouts) != len(paid) or set(paid) != set(due):
            found.append(f"{len(payouts)} payouts to {len(paid)} payees were made, {len(due)} are due")
        for party, amount in due.items():
            owed = (payable_of(party), in_flight_of(party))
            if owed != (0, 0):
                found.append(f"{party.handle}: {owed[0]} payable and {owed[1]} in flight, all is paid")
            if party in paid and self._received(paid[party]) != amount:
                found.append(f"{party.handle} received {self._received(paid[party])}, {amount} were due")
        return found

    def _received(self, payout: Payout) -> int:
        """What the payee's wallet has got on chain since the round began."""
        account = token_account_address(payout.address, self.on.facts["mint"])
        got = 0
        for entry in history_since(self.on.nodes[0], account, self.slot):
            record = self.on.nodes[0].transaction(entry.signature, commitment="finalized")
            if record is not None:
                got += record.token_delta(account, self.on.facts["mint"])
        return got


def _statuses() -> str:
    still = Payout.objects.filter(status__in=Payout.OPEN)
    return ", ".join(f"{payout.pk} {payout.status} {payout.note}".strip() for payout in still)

"""The life of a job under anything that agents, customers and sweepers may do, in any order (hypothesis).

After every step all invariants hold, an ended job stays as it ended, billed seconds only grow, and money is where it
should be. In the end everything is settled: no GPU claimed, nothing held, nobody charged for more than was confirmed.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from accounts.models import Party, User
from agent_protocol.reasons import REASON_CODES
from billing.selectors import balance_of, pending_of
from core import clock, invariants
from core.errors import DomainError
from marketplace.models import Attempt, Job, Listing, Rental
from marketplace.services import (
    attempts_sweep,
    job_cancel,
    jobs_place,
    queue_sweep,
    rentals_settle_ended,
    usage_settle,
    windows_close,
)
from providers.models import GpuClaim
from tests.factories.billing import funded
from tests.factories.marketplace import Agent, job_new, listing_new

pytestmark = pytest.mark.django_db

START = 20_000_000
FINAL = {"succeeded", "failed", "cancelled", "lost"}


@dataclass
class World:
    customer: Party
    listing: Listing
    job: Job
    now: datetime
    agent: Agent
    container_started: datetime | None = None
    ended_as: tuple[str, str] | None = None
    billed: int = 0
    log: list[str] = field(default_factory=list)

    # What may happen

    def wait(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    def place(self) -> None:
        jobs_place(now=self.now)

    def attempts(self) -> list[Attempt]:
        return list(Attempt.objects.filter(job=self.job).order_by("number"))

    def elapsed(self, drift: int) -> int | None:
        if self.container_started is None:
            return None
        return max(0, int((self.now - self.container_started).total_seconds()) + drift)

    def observe(self, state: str, which: int, drift: int) -> None:
        attempts = self.attempts()
        if not attempts:
            return
        attempt = attempts[max(len(attempts) - 1 - which, 0)]
        if state == "running" and which == 0 and self.container_started is None:
            self.container_started = self.now
        with suppress(DomainError, KeyError):
            self.agent.observe(attempt, state, at=self.now, elapsed=self.elapsed(drift))

    def lie(self) -> None:
        for attempt in self.attempts():
            with suppress(DomainError):
                self.agent.end(attempt, at=self.now, token="gpxt_somebody_elses", elapsed=10**6)

    def end(self, reason: str, exit_code: int | None, drift: int) -> None:
        for attempt in self.attempts()[-1:]:
            with suppress(DomainError, KeyError):
                self.agent.end(attempt, at=self.now, reason=reason, exit_code=exit_code, elapsed=self.elapsed(drift))
        self.container_started = None

    def cancel(self) -> None:
        job_cancel(job=self.job, actor="user:ravi", now=self.now)

    def sweep(self) -> None:
        attempts_sweep(now=self.now)
        queue_sweep(now=self.now)

    def meter(self) -> None:
        windows_close(now=self.now)
        usage_settle(now=self.now)

    # What must hold

    def check(self) -> None:
        self.job.refresh_from_db()
        assert invariants.check_all() == [], self.log
        as_it_is = (self.job.status, self.job.reason)
        if self.ended_as is not None:
            assert as_it_is == self.ended_as, self.log
        elif self.job.status in FINAL:
            self.ended_as = as_it_is
        rentals = list(Rental.objects.filter(attempt__job=self.job).select_related("attempt"))
        billed = sum(rental.billed_seconds for rental in rentals)
        assert billed >= self.billed, self.log
        self.billed = billed
        for rental in rentals:
            confirmed = rental.attempt.confirmed_elapsed_s or 0
            assert rental.billed_seconds <= confirmed, self.log
        spent = sum(rental.charged_micro - rental.credited_micro for rental in rentals)
        assert balance_of(self.customer).balance_micro == START - spent, self.log
        assert pending_of(self.listing.provider.party) <= spent, self.log

    def finish(self) -> None:
        """Everybody keeps silent: the sweepers alone bring it to an end."""
        for _round in range(12):
            self.wait(90_000)
            self.sweep()
            self.meter()
            rentals_settle_ended(now=self.now)
            self.check()
        assert self.job.status in FINAL, self.log
        assert balance_of(self.customer).held_micro == 0, self.log
        kept = Attempt.objects.filter(kept_gpus=True).values_list("pk", flat=True)
        assert not GpuClaim.objects.filter(live=True, kind="job").exclude(holder__in=kept).exists(), self.log


Step = Callable[[World], None]
STATES = ["pulling", "starting", "running", "running", "stopping", "ended"]
drifts = st.sampled_from([-5, 0, 0, 0, 3, 1_000])
steps: st.SearchStrategy[tuple[str, Step]] = st.one_of(
    st.sampled_from([1, 15, 61, 400, 1_900, 4_000]).map(lambda s: (f"wait {s}", lambda world: world.wait(s))),
    st.just(("place", World.place)),
    st.tuples(
        st.sampled_from(["pulling", "starting", "running", "running", "stopping", "ended"]), st.integers(0, 1), drifts
    ).map(lambda it: (f"observe {it}", lambda world: world.observe(*it))),
    st.tuples(st.sampled_from(REASON_CODES), st.sampled_from([None, 0, 0, 1, 137]), drifts).map(
        lambda it: (f"end {it}", lambda world: world.end(*it))
    ),
    st.just(("lie", World.lie)),
    st.just(("cancel", World.cancel)),
    st.just(("sweep", World.sweep)),
    st.just(("meter", World.meter)),
)


def live(ravi: User, market: Listing, plan: list[tuple[str, Step]], attempts: int) -> None:
    with transaction.atomic():
        now = clock.now()
        job = job_new(ravi, max_rate_micro=3_600_000, max_attempts=attempts, time_limit_s=3_600, now=now)
        world = World(job.customer, market, job, now, Agent(market.machine))
        world.place()
        for name, step in plan:
            world.log.append(name)
            step(world)
            for attempt in world.attempts():
                with suppress(KeyError):
                    world.agent.token(attempt)
            world.check()
        world.finish()
        transaction.set_rollback(True)


plans = st.lists(steps, min_size=4, max_size=25)
# Everything is checked after every step: slow per example on purpose, and the fixtures are meant to be shared by examples.
quiet = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@settings(max_examples=12, derandomize=True, **quiet)
@given(plan=plans, attempts=st.integers(1, 3))
def test_whatever_happens_the_books_and_the_gpus_are_right(
    ravi: User, market: Listing, plan: list[tuple[str, Step]], attempts: int
) -> None:
    live(ravi, market, plan, attempts)


@pytest.mark.deep
@settings(max_examples=400, **quiet)
@given(plan=plans, attempts=st.integers(1, 3))
def test_whatever_happens_for_long(ravi: User, market: Listing, plan: list[tuple[str, Step]], attempts: int) -> None:
    live(ravi, market, plan, attempts)


@pytest.fixture
def market(ravi: User) -> Listing:
    funded(ravi, START)
    return listing_new(rate_micro=3_600_000)

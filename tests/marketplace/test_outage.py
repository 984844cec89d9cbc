"""When the platform was away, nobody's silence counts: a job that ends for it is nobody's fault but ours."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from accounts.models import User
from marketplace.models import Rental
from marketplace.services import attempts_sweep, rental_settle
from marketplace.states import PARTITION_MARGIN_SECONDS
from reliability.models import Incident, Outcome, PlatformOutage
from reliability.services import offline_sweep
from tests.factories.marketplace import Story, story
from tests.marketplace.conftest import At

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("books", "clean_valkey")]

GRACE = 300
PATIENCE = GRACE + PARTITION_MARGIN_SECONDS
AWAY_SINCE, BACK = 105, 2_100
Looks = Callable[[int, int], None]


@pytest.fixture
def looks(at: At) -> Looks:
    """``looks(a, b)``: from one second of the story to another the platform sweeps, as it does when it is well."""

    def sweep(since: int, until: int) -> None:
        for second in range(since, until + 1, 20):
            offline_sweep(now=at(second))

    return sweep


@pytest.fixture
def told(ravi: User, at: At, looks: Looks) -> Story:
    """A job that was last heard of at 100 s; from 105 s to 2,100 s the platform was away."""
    told = story(ravi, now=at(0), disconnect_grace_s=GRACE)
    looks(5, AWAY_SINCE)
    told.agent.observe(told.attempt, "running", at=at(100), elapsed=90)
    return told


def test_an_outage_that_is_not_over_yet_loses_no_job(told: Story, at: At) -> None:
    attempts_sweep(now=at(BACK))
    assert told.reload().job.status == "active"


def test_after_an_outage_the_silence_goes_on_counting_where_it_stopped(told: Story, at: At, looks: Looks) -> None:
    looks(BACK, BACK)
    outage = PlatformOutage.objects.get()
    assert (outage.started_at, outage.ended_at) == (at(AWAY_SINCE), at(BACK))
    attempts_sweep(now=at(BACK))
    assert told.reload().job.status == "active"
    lost = BACK + PATIENCE - (AWAY_SINCE - 100)
    looks(BACK + 20, lost)
    attempts_sweep(now=at(lost - 1))
    assert told.reload().job.status == "active"
    attempts_sweep(now=at(lost))
    assert (told.reload().job.status, told.job.reason) == ("lost", "offline")
    assert Incident.objects.get().reason == "offline"


def test_a_job_that_survived_our_outage_goes_on(told: Story, at: At, looks: Looks) -> None:
    looks(BACK, BACK)
    told.agent.observe(told.attempt, "running", at=at(BACK + 5), elapsed=BACK - 5)
    attempts_sweep(now=at(BACK + 10))
    assert (told.reload().job.status, told.attempt.confirmed_elapsed_s) == ("active", BACK - 5)


@pytest.mark.parametrize("noticed", [True, False])
def test_a_job_that_its_agent_stopped_meanwhile_was_lost_by_us(
    told: Story, at: At, looks: Looks, noticed: bool
) -> None:
    if noticed:
        looks(BACK, BACK)
    told.agent.end(told.attempt, at=at(BACK + 5), reason="offline", exit_code=143, elapsed=390)
    assert (told.reload().job.status, told.job.reason) == ("lost", "platform_outage")
    assert not Incident.objects.exists()
    assert Outcome.objects.get().completed is None
    rental = Rental.objects.get()
    rental_settle(rental_id=rental.pk, now=at(BACK + 10))
    rental.refresh_from_db()
    assert (rental.billed_seconds, rental.credited_micro) == (390, 0)


@pytest.mark.parametrize("silent_s", [10, GRACE + 10])
def test_without_an_outage_it_is_the_machines_silence(ravi: User, at: At, looks: Looks, silent_s: int) -> None:
    told = story(ravi, now=at(0), disconnect_grace_s=GRACE)
    told.agent.observe(told.attempt, "running", at=at(100), elapsed=90)
    looks(0, 100 + silent_s)
    told.agent.end(told.attempt, at=at(100 + silent_s), reason="offline", exit_code=143, elapsed=90 + silent_s)
    assert told.reload().job.reason == "offline"
    assert Incident.objects.get().owner == "provider"

from __future__ import annotations

from datetime import timedelta

import pytest

from core import clock
from marketplace.models import Listing, Rental
from marketplace.services import jobs_place, rental_settle, windows_close
from tests.factories.billing import funded
from tests.factories.marketplace import Agent, job_new, listing_new, live_attempt

pytestmark = pytest.mark.django_db


def test_smoke(ravi) -> None:
    now = clock.now()
    listing = listing_new()
    assert (listing.visible, listing.hidden_reason, listing.gpus_free) == (True, "", 1)
    funded(ravi, 10_000_000)
    job = job_new(ravi)
    assert jobs_place(now=now) == 1
    attempt = live_attempt(job)
    agent = Agent(listing.machine)
    agent.observe(attempt, "pulling", at=now + timedelta(seconds=1))
    agent.observe(attempt, "running", at=now + timedelta(seconds=10), elapsed=2)
    agent.observe(attempt, "running", at=now + timedelta(seconds=70), elapsed=62)
    windows_close(now=now + timedelta(seconds=71))
    agent.end(attempt, at=now + timedelta(seconds=110), elapsed=100)
    job.refresh_from_db()
    assert job.status == "succeeded"
    rental = Rental.objects.get(attempt=attempt)
    rental_settle(rental_id=rental.pk, now=now + timedelta(seconds=111))
    rental.refresh_from_db()
    assert rental.billed_seconds == 100
    assert rental.charged_micro == 400_000 * 100 // 3600
    assert Listing.objects.get(pk=listing.pk).gpus_free == 1

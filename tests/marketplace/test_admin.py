"""Staff look at jobs and listings; forms change nothing, the few actions call services, the customer's affairs stay theirs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from accounts.models import User
from marketplace.models import Listing
from tests.factories.marketplace import listing_new, story
from tests.marketplace.conftest import At

pytestmark = pytest.mark.django_db

SignedIn = Callable[[User], Client]
MODELS = ("job", "attempt", "listing", "rental", "rate", "marketprice")


def test_every_list_and_page_opens_and_shows_nothing_of_what_runs(
    ravi: User, olga: User, signed_in: SignedIn, at: At
) -> None:
    told = story(
        ravi,
        now=at(0),
        command=("private-command",),
        environment={"K": "private-value"},
        secrets={"S": "secret-value"},
        registry_username="private-name",
        registry_password="hunter2",
    )
    client = signed_in(olga)
    pages = [client.get(f"/admin/marketplace/{name}/") for name in MODELS]
    for name, pk in (("job", told.job.pk), ("attempt", told.attempt.pk), ("listing", told.listing.pk)):
        pages.append(client.get(f"/admin/marketplace/{name}/{pk}/change/"))
    pages.append(client.get(f"/admin/marketplace/rental/{told.attempt.rental.pk}/change/"))
    assert {page.status_code for page in pages} == {200}
    for page in pages:
        text = page.content.decode()
        words = ("private-command", "private-value", "secret-value", "private-name", "hunter2")
        assert not [word for word in words if word in text]


def test_nothing_is_changed_by_a_form(ravi: User, olga: User, signed_in: SignedIn, at: At) -> None:
    told = story(ravi, now=at(0))
    client, where = signed_in(olga), f"/admin/marketplace/job/{told.job.pk}"
    assert client.post(f"{where}/change/", {"status": "succeeded"}).status_code == 403
    assert client.post(f"{where}/delete/", {"post": "yes"}).status_code == 403
    assert told.reload().job.status == "active"


def test_staff_stop_a_job(ravi: User, olga: User, signed_in: SignedIn, at: At) -> None:
    told = story(ravi, now=at(0))
    signed_in(olga).post("/admin/marketplace/job/", {"action": "stop", "_selected_action": [str(told.job.pk)]})
    assert told.reload().attempt.stop_reason == "platform_stop"


def test_staff_compute_a_listing_anew(olga: User, signed_in: SignedIn) -> None:
    listing = listing_new()
    Listing.objects.filter(pk=listing.pk).update(gpus_free=0)
    signed_in(olga).post("/admin/marketplace/listing/", {"action": "refresh", "_selected_action": [str(listing.pk)]})
    assert Listing.objects.get(pk=listing.pk).gpus_free == 1

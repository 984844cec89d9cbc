"""/provider/ says what is there, what is missing, and shows a token once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from accounts.models import User
from core import clock
from providers.models import EnrolmentToken
from tests.factories.marketplace import listing_new, machine_new, provider_of_user

pytestmark = pytest.mark.django_db
SignedIn = Callable[[User], Client]


def test_who_is_no_provider_is_shown_the_roles(ravi: User, signed_in: SignedIn) -> None:
    assert signed_in(ravi).get("/provider/")["Location"] == "/roles/"


def test_a_new_provider_is_told_to_connect_a_machine(ada: User, signed_in: SignedIn) -> None:
    provider_of_user(ada)
    page = signed_in(ada).get("/provider/").content.decode()
    assert "/agent | bash" in page
    assert "No machine yet" in page


def test_it_says_what_needs_doing_and_where(ada: User, signed_in: SignedIn) -> None:
    provider = provider_of_user(ada)
    waiting = machine_new(provider, confirmed=False, measured=False)
    page = signed_in(ada).get("/provider/")
    texts = [(todo.about, todo.url) for todo in page.context["todos"]]
    assert (waiting.name, f"/provider/machines/{waiting.pk}/") in texts
    assert any(url.endswith("/provider/earnings/#wallet") for _about, url in texts)


def test_a_listed_machine_is_online_and_needs_nothing(ada: User, signed_in: SignedIn) -> None:
    provider = provider_of_user(ada)
    listing = listing_new(provider)
    page = signed_in(ada).get("/provider/")
    assert page.context["online"] == 1
    assert [todo.about for todo in page.context["todos"]] == ["Earnings"]
    assert f"/market/{listing.pk}/" in page.content.decode()


def test_a_token_is_shown_once_and_replaces_the_earlier_ones(ada: User, signed_in: SignedIn) -> None:
    provider = provider_of_user(ada, machines=2)
    client = signed_in(ada)
    first = client.post("/provider/")
    second = client.post("/provider/")
    assert first.context["secret"] in first.content.decode()
    assert first["Cache-Control"] == "no-store"
    assert second.context["secret"] != first.context["secret"]
    assert EnrolmentToken.objects.filter(provider=provider, revoked_at__isnull=True).count() == 1
    assert second.context["secret"] not in client.get("/provider/").content.decode()


def test_a_full_fleet_gets_no_token(ada: User, signed_in: SignedIn) -> None:
    provider = provider_of_user(ada, machines=1)
    machine_new(provider, measured=False, now=clock.now())
    before = EnrolmentToken.objects.count()
    page = signed_in(ada).post("/provider/")
    assert page.context["secret"] == ""
    assert "approved machines are enrolled" in page.content.decode()
    assert EnrolmentToken.objects.count() == before

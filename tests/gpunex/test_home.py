from __future__ import annotations

from collections.abc import Callable

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import resolve

from accounts.models import User
from gpunex import context
from marketplace.selectors.figures import market_figures
from tests.factories.marketplace import listing_new, provider_new

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def fresh_figures() -> None:
    cache.delete("marketplace:figures")


def test_an_empty_market_shows_no_figures_rather_than_zeros(client: Client) -> None:
    page = client.get("/").content.decode()
    assert "Right now" not in page and "If you have GPUs" in page


def test_the_front_page_counts_what_is_listed(client: Client) -> None:
    listing_new(provider_new(country="DE"), gpus=2, rate_micro=500_000)
    listing_new(provider_new(country="US"), gpus=1, rate_micro=380_000)
    figures = market_figures()
    assert (figures.gpus_online, figures.gpus_free, figures.models, figures.countries) == (3, 3, 1, 2)
    assert [price.lowest_micro for price in figures.prices] == [380_000]
    page = client.get("/").content.decode()
    assert "Right now" in page and ">0.38<" in page


def test_a_hidden_listing_does_not_count() -> None:
    listing = listing_new(provider_new())
    type(listing).objects.filter(pk=listing.pk).update(visible=False, hidden_reason="offline")
    assert market_figures().gpus_online == 0


def test_every_entry_of_the_navigation_leads_somewhere() -> None:
    sections = (context.MAIN, context.CUSTOMER, context.PROVIDER, context.FUTURE_PROVIDER, context.STAFF)
    for entries in (*sections, context.PROVIDER_SECTION, context.ACCOUNT_SECTION):
        for entry in entries:
            resolve(entry.path)


def test_the_navigation_knows_who_looks(ravi: User, olga: User, signed_in: Callable[[User], Client]) -> None:
    from_provider = provider_new("Petra")
    seen = {
        name: signed_in(user).get("/").content.decode()
        for name, user in {"ravi": ravi, "olga": olga, "petra": from_provider.application.applicant}.items()
    }
    assert 'href="/admin/"' in seen["olga"] and 'href="/admin/"' not in seen["ravi"] + seen["petra"]


def test_the_browsers_language_is_spoken_and_a_persons_own_goes_first(
    ravi: User, signed_in: Callable[[User], Client]
) -> None:
    assert "租用别人的 GPU。" in Client(headers={"accept-language": "zh-CN,zh;q=0.9"}).get("/").content.decode()
    ravi.language = "zh-hans"
    ravi.save()
    page = signed_in(ravi).get("/", headers={"accept-language": "en"}).content.decode()
    assert "租用别人的 GPU。" in page


def test_pages_run_no_inline_script_and_say_so(client: Client) -> None:
    answer = client.get("/")
    assert "script-src 'self'" in answer["Content-Security-Policy"]
    assert "<script>" not in answer.content.decode()

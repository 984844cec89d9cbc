"""Valkey is away: every page and every API that is read answers as it does with it, for guests and for who is signed in."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from accounts.models import User
from core.valkey import valkey
from tests.architecture.access_rules import ALLAUTH, HOST, RULES, Route
from tests.architecture.access_scene import Scene, build
from tests.architecture.test_access_matrix import address
from tests.factories.billing import USDC, funded

pytestmark = pytest.mark.django_db
SAYS_SO = {"readyz"}
"""Whose answer is whether Valkey is there."""
READ = [route for route in RULES if "GET" in route.methods and route.rule is not HOST and route.path not in SAYS_SO]


@pytest.fixture
def scene(db: None) -> Scene:
    return build()


@pytest.fixture
def no_valkey(settings: Any) -> Iterator[None]:
    with away(settings):
        yield


@contextmanager
def away(settings: Any) -> Iterator[None]:
    """Nobody listens where Valkey was."""
    before = settings.REDIS_URL, settings.CACHES
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: every connection is refused
        url = f"redis://127.0.0.1:{taken.getsockname()[1]}/0"
        settings.REDIS_URL = url
        settings.CACHES = {"default": {**settings.CACHES["default"], "LOCATION": url}}
        valkey.cache_clear()
        try:
            yield
        finally:
            settings.REDIS_URL, settings.CACHES = before
            valkey.cache_clear()


def visit(scene: Scene, route: Route) -> int:
    client: Client = scene.client(route.owner or "ravi")
    return client.get(address(route.path, scene.values(route))).status_code


def test_every_page_and_api_answers_as_with_it(scene: Scene, settings: Any) -> None:
    guest = Client(raise_request_exception=False)
    public = [route for route in READ if route.owner == "" and route not in ALLAUTH]

    def look() -> dict[str, tuple[int, int | None]]:
        found = {route.path: (visit(scene, route), None) for route in READ}
        for route in public:
            found[route.path] = found[route.path][0], guest.get(address(route.path, scene.values(route))).status_code
        return found  # type: ignore[return-value]

    before = look()
    assert before["billing/"][0] == before["api/v1/billing/balance"][0] == 200
    with away(settings):
        after = look()
    assert {path: (before[path], after[path]) for path in before if before[path] != after[path]} == {}


def test_the_balance_is_what_the_books_say(ravi: User, no_valkey: None) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(ravi)
    funded(ravi, 5 * USDC)
    answer = client.get("/api/v1/billing/balance")
    assert answer.status_code == 200
    assert answer.json() == {"balance_micro": 5 * USDC, "held_micro": 0, "available_micro": 5 * USDC}


def test_who_logs_in_stays_and_who_logs_out_is_out_when_it_is_back(ravi: User, settings: Any) -> None:
    client, copied = Client(raise_request_exception=False), Client(raise_request_exception=False)
    client.force_login(ravi)
    assert client.get("/account/").status_code == 200
    copied.cookies = client.cookies.copy()  # type: ignore[assignment]
    with away(settings):
        assert client.get("/account/").status_code == 200
        client.logout()
    assert copied.get("/account/").status_code == 302


def test_the_cache_is_empty_then_and_takes_nothing(no_valkey: None) -> None:
    assert cache.get("a") is None and cache.get("a", 7) == 7
    cache.set("a", 1)
    cache.set_many({"a": 1})
    assert cache.get_many(["a"]) == {}
    assert (cache.add("a", 1), cache.touch("a"), cache.delete("a"), cache.has_key("a")) == (False,) * 4
    assert cache.get_or_set("a", lambda: 5) == 5
    cache.delete_many(["a"])


def test_the_cache_works_with_it() -> None:
    cache.set("test:cache", 1, 60)
    assert (cache.get("test:cache"), cache.get_or_set("test:cache", lambda: 2), cache.add("test:cache", 3)) == (
        1,
        1,
        False,
    )
    assert cache.delete("test:cache")

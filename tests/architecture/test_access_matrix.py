"""Who may open what: every route of the URLconf × every kind of stranger. A route that is not listed here fails.

What is not yours answers 404, like what does not exist. An anonymous visitor is sent to the log-in (pages) or refused
(APIs). The owner's own visit is the control: it shows that the stranger's 404 is not just a wrong address.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from uuid import uuid4

import pytest
from django.db import connection
from django.http import HttpResponse
from django.urls import URLPattern, URLResolver, get_resolver

from tests.architecture.access_rules import RULES, Expected, Route, admin_rule
from tests.architecture.access_scene import Scene, build

STRANGERS = ("anonymous", "eve", "other_provider", "other_customer", "clerk")
"""``eve`` owns nothing here, ``clerk`` is staff without a single permission."""


def routes() -> Iterator[str]:
    """Every route as one string, such as ``jobs/<uuid:job_id>/``."""

    def walk(patterns: list[URLPattern | URLResolver], prefix: str) -> Iterator[str]:
        for found in patterns:
            path = prefix + str(found.pattern)
            if isinstance(found, URLResolver):
                yield from walk(found.url_patterns, path)
            else:
                yield path

    return walk(get_resolver().url_patterns, "")


def test_every_route_is_listed() -> None:
    there = {path for path in routes() if not path.startswith("admin/")}
    listed = {route.path for route in RULES}
    assert there - listed == set(), "say in access_rules.py who may open these"
    assert listed - there == set(), "these are listed and exist no more"


def outcome(answer: HttpResponse) -> str:
    """An answer in one word: log-in, answered, or the status that refused."""
    location = answer.get("Location", "")
    if answer.status_code == 302 and location.startswith(("/account/login/", "/admin/login/")):
        return "log-in"
    if answer.status_code < 400 or answer.status_code == 400:
        return "answered"
    return str(answer.status_code)


def address(route: str, values: dict[str, str]) -> str:
    """The route with its placeholders filled in."""
    plain = re.sub(r"[\^$]|\\.", "", re.sub(r"\(\?P<(\w+)>[^)]*\)", r"<\1>", route)) if "(?P" in route else route
    nothing = {"uuid": "00000000-0000-7000-8000-000000000000"}
    return "/" + re.sub(r"<(?:(\w+):)?(\w+)>", lambda found: values.get(found[2], nothing.get(found[1], "1")), plain)


@dataclass(frozen=True)
class Visit:
    who: str
    method: str
    path: str

    def go(self, scene: Scene, path: str) -> HttpResponse:
        client = scene.client(self.who)
        send: Callable[..., HttpResponse] = {
            "GET": client.get,
            "POST": partial(client.post, data={}, content_type="application/json")
            if "/v1/" in path
            else partial(client.post, data={}),
            "DELETE": client.delete,
            "PATCH": partial(client.patch, data={}, content_type="application/json"),
            "PUT": partial(client.put, data={}, content_type="application/json"),
        }[self.method]
        return send(path)


@pytest.fixture
def scene(db: None) -> Scene:
    return build()


def _rows() -> int:
    """How many rows all our tables hold. Sessions and log-ins aside, a refusal leaves this as it was."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
            " AND relname !~ '^(django_|auth_|account_|mfa_)'"
        )
        total = 0
        for (name,) in cursor.fetchall():
            cursor.execute(f'SELECT count(*) FROM "{name}"')
            total += cursor.fetchone()[0]
    return total


def test_strangers_get_what_the_rule_says_and_nothing_moves(scene: Scene) -> None:
    wrong, before = [], _rows()
    for route in RULES:
        values = scene.values(route)
        for method in route.methods:
            for who in STRANGERS:
                visit = Visit(who, method, route.path)
                found = outcome(visit.go(scene, address(route.path, values)))
                allowed = route.rule.for_who(who)
                if found not in allowed:
                    wrong.append(f"{method} {route.path} as {who}: {found}, expected {' or '.join(sorted(allowed))}")
        if route.rule.moves_nothing and (now := _rows()) != before:
            wrong.append(f"{route.path}: {now - before} rows appeared although everybody was refused")
            before = now
        before = _rows()
    assert not wrong, "\n".join(wrong)


def test_what_does_not_exist_looks_like_what_is_not_yours(scene: Scene) -> None:
    for route in RULES:
        if route.rule.is_owners and "<uuid:" in route.path:
            for method in route.methods:
                missing = address(route.path, dict.fromkeys(re.findall(r":(\w+)>", route.path), str(uuid4())))
                assert outcome(Visit("eve", method, route.path).go(scene, missing)) == "404", (method, route.path)


def test_the_owner_does_get_in(scene: Scene) -> None:
    wrong = []
    for route in RULES:
        if route.rule.is_owners:
            assert route.owner, f"{route.path}: say whose it is"
            for method in route.methods:
                found = outcome(
                    Visit(route.owner, method, route.path).go(scene, address(route.path, scene.values(route)))
                )
                if found not in {"answered", "409", "402"}:
                    wrong.append(f"{method} {route.path} as its owner {route.owner}: {found}")
    assert not wrong, "\n".join(wrong)


def test_get_changes_nothing(scene: Scene) -> None:
    """What takes a POST refuses a GET, or the route is one that is read by GET as well."""
    for route in RULES:
        if "GET" not in route.methods and "POST" in route.methods:
            who = route.owner or "other_customer"
            found = outcome(Visit(who, "GET", route.path).go(scene, address(route.path, scene.values(route))))
            assert found in {"405", "404", "401"}, (route.path, found)


def test_the_admin_is_for_staff_with_permission(scene: Scene) -> None:
    wrong = []
    for path in sorted(path for path in routes() if path.startswith("admin/")):
        where = address(path, {"object_id": str(uuid4()), "app_label": "accounts", "url": "nowhere"})
        for who in STRANGERS:
            found = outcome(Visit(who, "GET", path).go(scene, where))
            allowed = admin_rule(path).for_who(who)
            if found not in allowed:
                wrong.append(f"GET {where} as {who}: {found}, expected {' or '.join(sorted(allowed))}")
    assert not wrong, "\n".join(wrong)


def test_the_matrix_would_notice(scene: Scene) -> None:
    """The check checked: a public page under an owner's rule is reported."""
    lax = Route("roles/", Expected.owner(), ("GET",), owner="ravi")
    found = outcome(Visit("eve", "GET", lax.path).go(scene, address(lax.path, {})))
    assert found not in lax.rule.for_who("eve")

"""How many queries a page takes, written down; and that it takes no more for many rows than for one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from accounts.models import User
from accounts.services import notification_send
from core import clock

pytestmark = pytest.mark.django_db
QUERIES = {"/": 5, "/roles/": 5, "/inbox/": 6, "/account/": 6}
"""Signed in, caches warm: the session, the person, their party and provider for the navigation, the unread count; then the
page's own."""


def queries(client: Client, path: str) -> list[str]:
    client.get(path)  # figures are cached by the first visit
    with CaptureQueriesContext(
        connection,
    ) as seen:
        assert client.get(path).status_code == 200
    return [query["sql"] for query in seen.captured_queries]


@pytest.mark.parametrize("path", QUERIES)
def test_a_page_takes_the_queries_written_down(ravi: User, signed_in: Callable[[User], Client], path: str) -> None:
    found = queries(signed_in(ravi), path)
    assert len(found) == QUERIES[path], "\n".join(found)


def test_many_messages_cost_no_more_queries_than_one(ravi: User, signed_in: Callable[[User], Client]) -> None:
    client = signed_in(ravi)
    notification_send(kind="welcome", user=ravi, context={}, now=clock.now())
    one = len(queries(client, "/inbox/"))
    for _ in range(20):
        notification_send(kind="welcome", user=ravi, context={}, now=clock.now())
    assert len(queries(client, "/inbox/")) == one

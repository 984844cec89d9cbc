from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection

from accounts.models import Party, User
from accounts.selectors import party_of
from core.invariants import check_all


@pytest.fixture(autouse=True)
def books(request: pytest.FixtureRequest) -> Iterator[None]:
    """At the end of every test that touched the database: the deferred laws fire and the verifier finds nothing."""
    touches = request.node.get_closest_marker("django_db") is not None or "committed_db" in request.fixturenames
    if "committed_db" in request.fixturenames:
        request.getfixturevalue("committed_db")
    elif touches:
        request.getfixturevalue("db")
    yield
    if touches:
        connection.check_constraints()
        assert check_all() == []


@pytest.fixture
def provider(ada: User) -> Party:
    return party_of(ada)


@pytest.fixture
def customer(ravi: User) -> Party:
    return party_of(ravi)

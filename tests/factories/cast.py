"""The fixed cast, made through services: Ada (provider), Ravi (customer), Eve (outsider), Olga (operator).

The fixtures ask for no database themselves, so that they work with ``db`` and with ``committed_db``: take one of the two first.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache

import pytest
from allauth.account.models import EmailAddress
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Permission
from django.test import Client

from accounts.models import User
from accounts.services import user_register

PASSWORD = "correct-horse-battery-42"
OUR_APPS = ("accounts", "billing", "providers", "benchmarks", "reliability", "marketplace", "core")


@lru_cache(maxsize=1)
def _password_hash() -> str:
    """Hashing takes a third of a second on purpose; once per run is enough for a password everybody shares."""
    return make_password(PASSWORD)


def person(name: str, *, is_staff: bool = False, permissions: bool = False) -> User:
    """A person with a verified address ``<name>@example.com`` and the password PASSWORD."""
    email = f"{name.lower()}@example.com"
    user = user_register(email=email, password=None, name=name, is_staff=is_staff, handle=name.lower())
    user.password = _password_hash()
    user.save(update_fields=["password"])
    EmailAddress.objects.create(user=user, email=email, verified=True, primary=True)
    if permissions:
        user.user_permissions.set(Permission.objects.filter(content_type__app_label__in=OUR_APPS))
    return user


@pytest.fixture
def ada() -> User:
    """Will apply to provide GPUs."""
    return person("Ada")


@pytest.fixture
def ravi() -> User:
    """Rents GPUs."""
    return person("Ravi")


@pytest.fixture
def eve() -> User:
    """Owns nothing here and tries everything."""
    return person("Eve")


@pytest.fixture
def olga() -> User:
    """Operates the marketplace: staff, with every permission of our apps (not a superuser)."""
    return person("Olga", is_staff=True, permissions=True)


@pytest.fixture
def signed_in() -> Callable[[User], Client]:
    """A test client with a person's session."""

    def client_of(user: User) -> Client:
        client = Client()
        client.force_login(user)
        return client

    return client_of


def reauthenticated(client: Client, user: User, *, method: str = "password") -> Client:
    """The client, whose person has said once more who they are just now (by ``password`` or ``mfa``)."""
    session = client.session
    session["account_authentication_methods"] = [{"method": method, "at": time.time(), "reauthenticated": True}]
    session["account_authentication_methods_user"] = str(user.pk)
    session.save()
    return client


@pytest.fixture
def otto() -> User:
    """The second pair of eyes: staff like Olga."""
    return person("Otto", is_staff=True, permissions=True)

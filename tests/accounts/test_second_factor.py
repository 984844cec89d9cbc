from __future__ import annotations

import pytest
from allauth.mfa.totp.internal.auth import (
    TOTP,
    format_hotp_value,
    generate_totp_secret,
    hotp_value,
    yield_hotp_counters_from_time,
)
from django.core.cache import cache
from django.test import Client

from accounts.models import User
from tests.factories.cast import PASSWORD

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def fresh_limits() -> None:
    cache.clear()


def code_of(secret: str) -> str:
    return format_hotp_value(hotp_value(secret, next(yield_hotp_counters_from_time())))


def test_the_password_alone_is_half_of_the_way(ravi: User, client: Client) -> None:
    secret = generate_totp_secret()
    TOTP.activate(ravi, secret)
    answer = client.post("/account/login/", {"login": "ravi@example.com", "password": PASSWORD})
    assert answer["Location"].startswith("/account/2fa/authenticate/")
    assert client.get("/account/").status_code == 302
    wrong = client.post("/account/2fa/authenticate/", {"code": "000000"})
    assert wrong.status_code == 200 and b"Incorrect code" in wrong.content
    assert client.get("/account/").status_code == 302
    code = code_of(secret)
    assert client.post("/account/2fa/authenticate/", {"code": code}).status_code == 302
    assert client.get("/account/").status_code == 200
    # A code works once: whoever looked over the shoulder comes too late.
    other = Client()
    other.post("/account/login/", {"login": "ravi@example.com", "password": PASSWORD})
    assert other.post("/account/2fa/authenticate/", {"code": code}).status_code == 200
    assert other.get("/account/").status_code == 302

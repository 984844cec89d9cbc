from __future__ import annotations

from collections.abc import Callable

import pytest
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from django.test import Client

from accounts.models import User

pytestmark = pytest.mark.django_db
SignedIn = Callable[[User], Client]


def test_in_production_staff_need_a_second_factor(olga: User, signed_in: SignedIn, settings: object) -> None:
    settings.DEMO = False  # type: ignore[attr-defined]
    client = signed_in(olga)
    answer = client.get("/admin/", follow=True)
    assert answer.redirect_chain[-1][0] == "/account/2fa/"
    assert b"need a second factor" in answer.content
    TOTP.activate(olga, generate_totp_secret())
    assert client.get("/admin/").status_code == 200


def test_a_second_factor_makes_nobody_staff(ravi: User, signed_in: SignedIn, settings: object) -> None:
    settings.DEMO = False  # type: ignore[attr-defined]
    TOTP.activate(ravi, generate_totp_secret())
    assert signed_in(ravi).get("/admin/", follow=True).status_code == 403


def test_nobody_edits_rights_on_the_web(olga: User, signed_in: SignedIn) -> None:
    client = signed_in(olga)
    for path in ("auth/group/", "account/emailaddress/", "mfa/authenticator/"):
        assert client.get(f"/admin/{path}").status_code == 404
    page = client.get(f"/admin/accounts/user/{olga.pk}/change/").content.decode()
    assert "olga@example.com" in page and 'name="is_superuser"' not in page and 'name="_save"' not in page

"""The way in, in order, through the real pages: sign up, mail, verify, log in; and what these pages must not tell."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.core import mail
from django.core.cache import cache
from django.core.mail import EmailMessage
from django.test import Client

from accounts.models import Party, User
from accounts.selectors import inbox_of
from accounts.services import mails_sweep
from core import clock
from tests.factories.cast import PASSWORD

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def fresh_limits() -> None:
    """Rate limits count in Valkey; each test starts at zero."""
    cache.clear()


def delivered() -> list[EmailMessage]:
    """What has gone out once the worker has done its part, oldest first."""
    mails_sweep(now=clock.now())
    return mail.outbox


def sign_up(client: Client, email: str) -> tuple[int, str]:
    answer = client.post("/account/signup/", {"email": email, "password1": PASSWORD, "password2": PASSWORD})
    return answer.status_code, answer.get("Location", "")


def log_in(client: Client, email: str, password: str = PASSWORD, **more: str) -> tuple[int, str, str]:
    answer = client.post("/account/login/", {"login": email, "password": password, **more})
    return answer.status_code, answer.get("Location", ""), answer.content.decode()


def link_in(text: str) -> str:
    found = re.search(r"http://127\.0\.0\.1:8000(/\S+)", text)
    assert found, text
    return found[1]


def test_signing_up_verifying_and_logging_in(client: Client) -> None:
    assert sign_up(client, "Mei@Example.com") == (302, "/account/confirm-email/")
    user = User.objects.get(email="mei@example.com")
    assert Party.objects.filter(members__user=user).count() == 1
    (sent,) = delivered()
    assert sent.to == ["mei@example.com"]
    # Before the address is verified nobody gets in, with the right password neither.
    assert log_in(client, "mei@example.com")[1] == "/account/confirm-email/"
    assert client.get("/account/").status_code == 302
    # Opening the link changes nothing (mail scanners open links); the button does.
    link = link_in(sent.body)
    assert client.get(link).status_code == 200
    assert client.get("/account/").status_code == 302
    assert client.post(link).status_code == 302
    assert log_in(Client(), "mei@example.com")[:2] == (302, "/")
    assert [row.kind for row in inbox_of(user)] == ["welcome"]


def test_the_link_in_a_mail_is_ours_whatever_the_host_header_says(client: Client, settings: object) -> None:
    settings.ALLOWED_HOSTS = ["*"]  # type: ignore[attr-defined]
    client.post(
        "/account/signup/",
        {"email": "mei@example.com", "password1": PASSWORD, "password2": PASSWORD},
        headers={"host": "evil.example"},
    )
    (sent,) = delivered()
    assert "evil" not in sent.body and "evil" not in sent.subject
    assert link_in(sent.body).startswith("/account/confirm-email/")


def test_signing_up_does_not_tell_that_an_account_exists(ravi: User, client: Client) -> None:
    assert sign_up(Client(), "new@example.com") == sign_up(client, "ravi@example.com")
    assert mail.outbox == [], "no request waits for a mail server"
    other, told = delivered()
    assert told.to == ["ravi@example.com"] and other.to == ["new@example.com"]
    assert "/account/password/reset/" in told.body  # the owner learns of it, by mail alone
    assert User.objects.filter(email__endswith="@example.com").count() == 2


def test_a_reset_does_not_tell_whether_an_account_exists(ravi: User) -> None:
    answers = [
        Client().post("/account/password/reset/", {"email": email}, follow=True)
        for email in ("ravi@example.com", "nobody@example.com")
    ]
    known, unknown = (
        re.sub(r'name="csrfmiddlewaretoken" value="\w+"|"X-CSRFToken": "\w+"', "", a.content.decode()) for a in answers
    )
    assert answers[0].redirect_chain == answers[1].redirect_chain == [("/account/password/reset/done/", 302)]
    assert known == unknown


def test_a_log_in_does_not_tell_which_half_was_wrong(ravi: User) -> None:
    def said(page: str) -> list[str]:
        return re.findall(r'<div class="alert[^>]*>(.*?)</div>', page, re.DOTALL)

    wrong_password = log_in(Client(), "ravi@example.com", "wrong")
    no_such_user = log_in(Client(), "nobody@example.com", "wrong")
    assert wrong_password[0] == no_such_user[0] == 200
    assert said(wrong_password[2]) == said(no_such_user[2]) != []


def test_a_reset_link_works_once(ravi: User, client: Client) -> None:
    client.post("/account/password/reset/", {"email": "ravi@example.com"})
    link = link_in(delivered()[0].body)
    form = client.get(link, follow=True)
    target = form.redirect_chain[-1][0]
    fresh = "another-horse-battery-43"
    assert client.post(target, {"password1": fresh, "password2": fresh}).status_code == 302
    assert log_in(Client(), "ravi@example.com", fresh)[:2] == (302, "/")
    assert b"reset link was invalid" in Client().get(link, follow=True).content
    assert any("password has been reset" in sent.body for sent in delivered())  # the owner is told


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example/", "/\\evil.example/"])
def test_after_a_log_in_one_stays_with_us(ravi: User, target: str) -> None:
    assert log_in(Client(), "ravi@example.com", next=target)[1] == "/"
    assert log_in(Client(), "ravi@example.com", next="/inbox/")[1] == "/inbox/"


def test_guessing_passwords_is_slowed_down(ravi: User, client: Client) -> None:
    for _ in range(5):
        log_in(client, "ravi@example.com", "wrong")
    status, _, page = log_in(client, "ravi@example.com")  # now even the right one
    assert status in {200, 429} and "Too many" in page


def test_logging_out_needs_a_post(ravi: User, signed_in: Callable[[User], Client]) -> None:
    client = signed_in(ravi)
    client.get("/account/logout/")
    assert client.get("/account/").status_code == 200
    client.post("/account/logout/")
    assert client.get("/account/").status_code == 302


def test_a_form_without_its_token_is_refused(ravi: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(ravi)
    answer = client.post("/account/", {"name": "Mallory", "language": "en", "time_zone": "UTC"})
    assert answer.status_code == 403 and b"Please try again" in answer.content
    ravi.refresh_from_db()
    assert ravi.name == "Ravi"


def test_the_admins_log_in_is_the_one_with_the_second_factor(ravi: User, signed_in: Callable[[User], Client]) -> None:
    answer = Client().get("/admin/", follow=True)
    assert answer.redirect_chain[-1][0].startswith("/account/login/?next=")
    assert signed_in(ravi).get("/admin/login/").status_code == 403

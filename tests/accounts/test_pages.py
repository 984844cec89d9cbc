from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from accounts.models import User
from accounts.services import notification_send
from core import clock

pytestmark = pytest.mark.django_db
SignedIn = Callable[[User], Client]


@pytest.mark.parametrize("path", ["/", "/roles/"])
def test_everybody_sees_the_public_pages(client: Client, path: str) -> None:
    assert client.get(path).status_code == 200


def test_the_roles_page_leads_to_the_application(client: Client) -> None:
    page = client.get("/roles/").content.decode()
    assert 'href="/provider/apply/"' in page and "Apply to Provide GPUs" in page


@pytest.mark.parametrize("path", ["/account/", "/inbox/"])
def test_own_pages_ask_for_the_log_in_first(client: Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 302 and answer["Location"] == f"/account/login/?next={path}"


def test_a_profile_is_saved_and_used(ravi: User, signed_in: SignedIn) -> None:
    client = signed_in(ravi)
    answer = client.post("/account/", {"name": "R.", "language": "zh-hans", "time_zone": "Asia/Shanghai"}, follow=True)
    assert answer.status_code == 200 and 'lang="zh-hans"' in answer.content.decode()
    ravi.refresh_from_db()
    assert (ravi.name, ravi.language, ravi.time_zone) == ("R.", "zh-hans", "Asia/Shanghai")


def test_an_unknown_zone_is_refused_beside_its_field(ravi: User, signed_in: SignedIn) -> None:
    answer = signed_in(ravi).post("/account/", {"name": "", "language": "en", "time_zone": "Mars/Base"})
    assert answer.status_code == 200 and "Mars/Base is not one of the available choices" in answer.content.decode()
    ravi.refresh_from_db()
    assert ravi.time_zone == "UTC"


def test_a_message_is_read_when_it_is_opened(ravi: User, signed_in: SignedIn) -> None:
    (row,) = notification_send(kind="tried", user=ravi, context={}, now=clock.now(), url="/roles/")
    client = signed_in(ravi)
    assert client.post(f"/inbox/{row.pk}/")["Location"] == "/roles/"
    row.refresh_from_db()
    assert row.read_at is not None


def test_eve_cannot_open_what_is_not_hers(ravi: User, eve: User, signed_in: SignedIn) -> None:
    (row,) = notification_send(kind="tried", user=ravi, context={}, now=clock.now(), url="/roles/")
    assert signed_in(eve).post(f"/inbox/{row.pk}/").status_code == 404
    row.refresh_from_db()
    assert row.read_at is None


@pytest.mark.parametrize(
    "target", ["https://evil.example/", "//evil.example", "javascript:alert(1)", "/\\evil.example"]
)
def test_the_switches_go_back_to_us_alone(client: Client, target: str) -> None:
    for path, field in (("/language/", {"language": "zh-hans"}), ("/theme/", {"theme": "dark"})):
        assert client.post(path, field | {"next": target})["Location"] == "/"


def test_the_switches_change_the_page(client: Client) -> None:
    client.post("/language/", {"language": "zh-hans", "next": "/roles/"})
    client.post("/theme/", {"theme": "dark", "next": "/roles/"})
    page = client.get("/roles/").content.decode()
    assert '<html lang="zh-hans" data-bs-theme="dark">' in page


@pytest.mark.parametrize(("path", "field"), [("/language/", "language"), ("/theme/", "theme")])
def test_a_switch_says_what_it_allows(client: Client, path: str, field: str) -> None:
    answer = client.post(path, {field: "klingon"})
    assert answer.status_code == 400 and b"found 'klingon'; allowed: " in answer.content


def test_nothing_there_is_told_in_the_callers_shape(client: Client) -> None:
    page = client.get("/nowhere/")
    assert page.status_code == 404 and b"There is nothing here" in page.content
    body = client.get("/api/v1/nowhere/")
    assert body.status_code == 404 and body.json()["code"] == "not_found" and body.json()["request_id"]

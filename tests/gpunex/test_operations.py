"""The operator's first page: what waits, how long, and nothing of what one may not see."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.contrib import admin
from django.core.cache import cache
from django.test import Client, RequestFactory

from accounts.models import User
from core import clock, invariants, news
from core.invariants import Violation
from gpunex.admin_navigation import DETAILS, GROUPS, navigation
from gpunex.demo.build import demo_build
from gpunex.operations import NEWS_OLD, Today, operations_today
from tests.factories.cast import person
from tests.factories.marketplace import listing_new, provider_new

pytestmark = pytest.mark.django_db
SignedIn = Callable[[User], Client]
QUERIES = 19
"""However long the queue is: one for each kind of thing."""


@pytest.fixture(autouse=True)
def forgetful() -> Iterator[None]:
    cache.delete(invariants.RESULT_KEY)
    yield
    cache.delete(invariants.RESULT_KEY)


@pytest.fixture
def operator() -> User:
    return person("Oscar", is_staff=True, permissions=True)


def numbers(today: Today) -> dict[str, int | None]:
    return {duty.about: duty.number for duty in today.duties}


def test_the_queue_says_how_old_and_what_is_proposed(tmp_path: Path, operator: User) -> None:
    monday = datetime(2026, 11, 30, 9, tzinfo=UTC)
    demo_build(tmp_path, now=monday)
    today = operations_today(operator, now=monday + timedelta(days=3))
    assert [(row.tier, row.days, row.late) for row in today.queue] == [("Enterprise", 4, True), ("Community", 3, False)]
    assert today.queue_number == 2
    assert [row.gpus for row in today.queue] == [24, 4]


def test_what_needs_a_look_is_counted(operator: User) -> None:
    now = clock.now()
    machine = listing_new(provider_new(), gpus=2).machine
    before = numbers(operations_today(operator, now=now))
    assert before["Machines in quarantine"] == 0 and before["News not delivered"] == 0
    type(machine).objects.filter(pk=machine.pk).update(status="quarantined")
    news.publish("machine.state", machine.pk, now=now - NEWS_OLD - timedelta(seconds=1))
    after = numbers(operations_today(operator, now=now))
    assert after["Machines in quarantine"] == 1 and after["News not delivered"] == 1


def test_the_books_are_unknown_until_they_were_checked(operator: User) -> None:
    about, now = "Broken promises of the books", clock.now()
    assert numbers(operations_today(operator, now=now))[about] is None
    invariants.result_keep([], now=now)
    assert numbers(operations_today(operator, now=now))[about] == 0
    invariants.result_keep([Violation("billing.zero_sum", "transfer x", "adds up to 1")], now=now)
    duty = next(duty for duty in operations_today(operator, now=now).duties if duty.about == about)
    assert duty.number == 1 and duty.urgent and "transfer x" in str(duty.detail)


def test_the_page_costs_few_queries(
    tmp_path: Path, operator: User, signed_in: SignedIn, django_assert_max_num_queries: Callable[[int], object]
) -> None:
    demo_build(tmp_path, now=clock.now())
    operator.get_all_permissions()
    with django_assert_max_num_queries(QUERIES):  # type: ignore[attr-defined]
        operations_today(operator, now=clock.now())
    page = signed_in(operator).get("/admin/").content.decode()
    assert "Astrid Haugen" in page and "img/mark.svg" in page


def test_staff_without_rights_see_nothing_of_it(tmp_path: Path, signed_in: SignedIn) -> None:
    demo_build(tmp_path, now=clock.now())
    clerk = person("Clerk", is_staff=True)
    today = operations_today(clerk, now=clock.now())
    assert today.queue == [] and today.duties == []
    assert "Astrid Haugen" not in signed_in(clerk).get("/admin/").content.decode()


def test_the_sidebar_begins_with_the_queue_and_holds_every_model(operator: User) -> None:
    listed = [label for _title, entries in (*GROUPS, *DETAILS) for _words, _icon, label in entries]
    registered = {model._meta.label_lower for model in admin.site._registry}
    assert set(listed) == registered and len(listed) == len(set(listed))
    assert listed[0] == "providers.application"
    request = RequestFactory().get("/admin/")
    request.user = operator
    assert all(
        item.get("permission", lambda _: True)(request) for group in navigation(request) for item in group["items"]
    )

from __future__ import annotations

import json

import pytest
from django.test import RequestFactory

from core.errors import Conflict, Denied, NotFound
from core.middleware import DomainErrorMiddleware

NET = DomainErrorMiddleware(lambda request: pytest.fail("not called"))


def test_an_api_gets_the_one_error_shape() -> None:
    request = RequestFactory().get("/agent/v1/bell")
    answer = NET.process_exception(request, Conflict("Taken.", fields={"gpu": "busy"}))
    assert answer is not None and answer.status_code == 409
    body = json.loads(answer.content)
    assert (body["code"], body["message"], body["fields"]) == ("conflict", "Taken.", {"gpu": ["busy"]})


@pytest.mark.django_db
@pytest.mark.parametrize(("error", "status"), [(NotFound("no"), 404), (Denied("no"), 403)])
def test_a_page_says_not_here_or_not_yours(rf: RequestFactory, error: Exception, status: int) -> None:
    request = rf.get("/jobs/")
    request.user = type("Nobody", (), {"is_authenticated": False})()
    answer = NET.process_exception(request, error)
    assert answer is not None and answer.status_code == status


@pytest.mark.parametrize("error", [Conflict("a form should have shown it"), ValueError("a bug")])
def test_what_a_page_should_have_handled_stays_a_failure(rf: RequestFactory, error: Exception) -> None:
    assert NET.process_exception(rf.post("/jobs/"), error) is None

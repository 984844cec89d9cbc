"""Request ids: one per request, in every log line, in every error and in the answer's ``X-Request-ID``."""

from __future__ import annotations

import re
from collections.abc import Callable

import structlog
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from core.api.errors import error_response
from core.errors import DomainError
from core.ids import uuid7

_SAFE = re.compile(r"[A-Za-z0-9-]{8,64}")
GetResponse = Callable[[HttpRequest], HttpResponse]


class RequestIdMiddleware:
    """Takes a proxy's well-formed ``X-Request-ID`` or makes one, and binds it to the log context."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get("X-Request-ID", "")
        request.request_id = given if _SAFE.fullmatch(given) else str(uuid7())  # type: ignore[attr-defined]
        structlog.contextvars.clear_contextvars()
        structlog.contextvars.bind_contextvars(request_id=request.request_id)  # type: ignore[attr-defined]
        response = self.get_response(request)
        response["X-Request-ID"] = request.request_id  # type: ignore[attr-defined]
        return response


class DomainErrorMiddleware:
    """The net under plain views: a named error that nobody caught is answered as what it says, not as a broken page.

    APIs get the one error shape; a page gets 404 or 403. Any other refusal that reaches this far from a page is a bug
    (a form should have shown it) and stays a 500.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        if not isinstance(exception, DomainError):
            return None
        if request.path.startswith(("/api/", "/agent/v1/")):
            return error_response(request, exception)
        if exception.status in (403, 404):
            return render(request, f"{exception.status}.html", status=exception.status)
        return None

"""The viewer's time zone and language, for the length of one request."""

from __future__ import annotations

from collections.abc import Callable
from zoneinfo import ZoneInfo

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone, translation

GetResponse = Callable[[HttpRequest], HttpResponse]


class ViewerMiddleware:
    """A signed-in person's zone is theirs; their language too, unless this browser's switch was set to another."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        # A request without a session cookie is nobody's: agents and probes must not pay for a session lookup.
        if settings.SESSION_COOKIE_NAME not in request.COOKIES or not request.user.is_authenticated:
            return self.get_response(request)
        if settings.LANGUAGE_COOKIE_NAME not in request.COOKIES:
            translation.activate(request.user.language)
            request.LANGUAGE_CODE = translation.get_language()  # type: ignore[attr-defined]
        with timezone.override(ZoneInfo(request.user.time_zone)):
            return self.get_response(request)

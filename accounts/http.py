from __future__ import annotations

from allauth.account.decorators import reauthentication_required
from allauth.core.exceptions import ReauthenticationRequired
from django.http import HttpRequest, HttpResponse

from accounts.models import User


class PersonRequest(HttpRequest):
    """The request of a view behind ``login_required``, for type annotations: its user is a person."""

    user: User


@reauthentication_required
def _asked(_request: HttpRequest) -> HttpResponse:
    return HttpResponse()


def recently_reauthenticated(request: HttpRequest) -> bool:
    """Whether the person gave password or code once more in this session, within allauth's REAUTHENTICATION_TIMEOUT."""
    try:
        _asked(request)
    except ReauthenticationRequired:
        return False
    return True

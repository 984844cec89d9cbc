from __future__ import annotations

from django.http import HttpRequest

from accounts.models import User


class PersonRequest(HttpRequest):
    """The request of a view behind ``login_required``, for type annotations: its user is a person."""

    user: User

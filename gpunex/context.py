from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest


def site(request: HttpRequest) -> dict[str, object]:
    """What every page needs of the installation."""
    return {
        "DEMO": settings.DEMO,
        "ORIGIN": settings.ORIGIN,
        "VERSION": settings.VERSION,
        "LANGUAGES": settings.LANGUAGES,
    }

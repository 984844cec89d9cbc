"""What every page needs: the installation, the viewer, and where one can go from here."""

from __future__ import annotations

from dataclasses import dataclass

from django.conf import settings
from django.http import HttpRequest
from django.utils.functional import Promise, SimpleLazyObject
from django.utils.translation import gettext_lazy as _

from accounts.selectors import party_of, unread_count
from providers.selectors import provider_of

THEMES = ("auto", "light", "dark")


@dataclass(frozen=True)
class Entry:
    """One entry of a navigation; ``active`` when the page on screen lies under its path."""

    label: str | Promise
    path: str
    active: bool = False


Entries = tuple[Entry, ...]

MAIN = (Entry(_("Market"), "/market/"),)
CUSTOMER = (Entry(_("Jobs"), "/jobs/"), Entry(_("Billing"), "/billing/"))
PROVIDER = (Entry(_("Provide"), "/provider/"),)
FUTURE_PROVIDER = (Entry(_("Provide GPUs"), "/roles/"),)
STAFF = (Entry(_("Operations"), "/admin/"),)
PROVIDER_SECTION = (
    Entry(_("Overview"), "/provider/"),
    Entry(_("Machines"), "/provider/machines/"),
    Entry(_("Benchmarks"), "/provider/benchmarks/"),
    Entry(_("Pricing"), "/provider/pricing/"),
    Entry(_("Earnings"), "/provider/earnings/"),
    Entry(_("Performance"), "/provider/performance/"),
)
ACCOUNT_SECTION = (
    Entry(_("Profile"), "/account/"),
    Entry(_("E-mail"), "/account/email/"),
    Entry(_("Password"), "/account/password/change/"),
    Entry(_("Two-factor log-in"), "/account/2fa/"),
    Entry(_("Inbox"), "/inbox/"),
)


def _entries(entries: Entries, here: str) -> list[Entry]:
    """The entries; the one with the longest path above ``here`` is active."""
    above = [entry.path for entry in entries if here.startswith(entry.path)]
    deepest = max(above, key=len, default=None)
    return [Entry(entry.label, entry.path, entry.path == deepest) for entry in entries]


def _main_entries(request: HttpRequest) -> list[Entry]:
    user = request.user
    found: Entries = MAIN
    if user.is_authenticated:
        found += CUSTOMER
    found += PROVIDER if _is_provider(request) else FUTURE_PROVIDER
    if user.is_authenticated and user.is_staff:
        found += STAFF
    return _entries(found, request.path)


def _section_entries(request: HttpRequest) -> list[Entry]:
    if not request.user.is_authenticated:
        return []
    if request.path.startswith(("/account/", "/inbox/")):
        return _entries(ACCOUNT_SECTION, request.path)
    if request.path.startswith("/provider/") and _is_provider(request):
        return _entries(PROVIDER_SECTION, request.path)
    return []


def _is_provider(request: HttpRequest) -> bool:
    """Asked once per request, by a page that shows the navigation."""
    if not hasattr(request, "_is_provider"):
        user = request.user
        found = user.is_authenticated and provider_of(party_of(user)) is not None
        request._is_provider = found  # type: ignore[attr-defined]
    return bool(request._is_provider)  # type: ignore[attr-defined]


def site(request: HttpRequest) -> dict[str, object]:
    theme = request.COOKIES.get("theme", "auto")
    return {
        "DEMO": settings.DEMO,
        "ORIGIN": settings.ORIGIN,
        "VERSION": settings.VERSION,
        "LANGUAGES": settings.LANGUAGES,
        "theme": theme if theme in THEMES else "auto",
        "themes": ((value, label) for value, label in zip(THEMES, (_("System"), _("Light"), _("Dark")), strict=True)),
        "navigation": SimpleLazyObject(lambda: _main_entries(request)),
        "section": SimpleLazyObject(lambda: _section_entries(request)),
        "is_provider": SimpleLazyObject(lambda: _is_provider(request)),
        "unread": SimpleLazyObject(lambda: unread_count(request.user) if request.user.is_authenticated else 0),
    }

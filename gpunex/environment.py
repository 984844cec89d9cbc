"""Settings for what differs between installations, parsed and checked at start-up: an error names the variable."""

from __future__ import annotations

import os
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured


def text(name: str, default: str | None = None) -> str:
    value = os.environ.get(name, default)
    if value is None:
        raise ImproperlyConfigured(f"{name} is not set. bin/start sets it for you; docs/operations.md lists them all.")
    return value


def flag(name: str, default: bool) -> bool:
    value = os.environ.get(name, "1" if default else "0").lower()
    if value not in {"0", "1", "true", "false"}:
        raise ImproperlyConfigured(f"{name}: found {value!r}; allowed: 0, 1, true, false.")
    return value in {"1", "true"}


def number(name: str, default: int, *, least: int = 0) -> int:
    value = os.environ.get(name, str(default))
    if not value.isdecimal() or int(value) < least:
        raise ImproperlyConfigured(f"{name}: found {value!r}; allowed: a whole number from {least}.")
    return int(value)


def words(name: str, default: str = "") -> list[str]:
    return [word.strip() for word in os.environ.get(name, default).split(",") if word.strip()]


def database(url: str, *, name: str, application: str, statement_timeout_ms: int) -> dict[str, object]:
    """A Django database entry from a ``postgresql://user:password@host:port/name`` URL (a socket folder as ``?host=``)."""
    parts = urlsplit(url)
    if parts.scheme not in {"postgres", "postgresql"} or not parts.path.strip("/"):
        raise ImproperlyConfigured(
            f"{name}: found scheme {parts.scheme!r}; allowed: postgresql://user:password@host:port/name."
        )
    query = dict(pair.partition("=")[::2] for pair in parts.query.split("&") if pair)
    return {
        "ENGINE": "django_prometheus.db.backends.postgresql",
        "NAME": unquote(parts.path.strip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": unquote(query.get("host", "")) or parts.hostname or "",
        "PORT": str(parts.port or 5432),
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,
        "DISABLE_SERVER_SIDE_CURSORS": True,
        "ATOMIC_REQUESTS": False,
        "OPTIONS": {
            "application_name": application,
            "options": (
                f"-c statement_timeout={statement_timeout_ms} -c lock_timeout=3000"
                " -c idle_in_transaction_session_timeout=10000 -c timezone=UTC"
            ),
        },
    }

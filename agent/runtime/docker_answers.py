"""Reading what an engine answers: pure, so that each odd case can be tested."""

from datetime import datetime
from typing import Any

from docker.errors import APIError

from agent_protocol.images import ImageRefused, image_parse

# What the guard answers for an engine that does not, and when too many ask at once.
GUARD_AWAY = frozenset({502, 503})


def has_component(version: dict[str, Any], word: str) -> bool:
    return any(word in str(part.get("Name", "")).lower() for part in version.get("Components") or ())


def engine_away(error: APIError) -> bool:
    """Whether the engine did not answer the guard, or is about to go."""
    return error.status_code in GUARD_AWAY or (
        error.is_server_error() and "shutting down" in str(error.explanation).lower()
    )


def image_name(image: str, registries: frozenset[str]) -> str | None:
    """registry/repository of a digest as the engine abbreviates it; null for one that may not be used."""
    try:
        return image_parse(image, allowed_registries=registries).name
    except ImageRefused:
        return None


def event_action(event: dict[str, Any]) -> tuple[str, str]:
    attributes = (event.get("Actor") or {}).get("Attributes") or {}
    return str(event.get("Action")), str(attributes.get("signal", ""))


def instant(text: str) -> float:
    """Seconds since the epoch of the engine's RFC 3339 text, whose nanoseconds Python does not read."""
    head, _, tail = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{head}.{tail[:6]:0<6}+00:00").timestamp()

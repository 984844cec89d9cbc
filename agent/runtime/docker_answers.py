"""Reading what an engine answers: pure, so that each odd case can be tested."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from docker.errors import APIError

# What the guard answers for an engine that does not, and when too many ask at once.
GUARD_AWAY = frozenset({502, 503})

# The engine cuts what comes without a line break into parts of this size.
LINE_PART_BYTES = 16 * 1024


def has_component(version: dict[str, Any], word: str) -> bool:
    return any(word in str(part.get("Name", "")).lower() for part in version.get("Components") or ())


def engine_away(error: APIError) -> bool:
    """Whether the engine did not answer the guard, or is about to go."""
    return error.status_code in GUARD_AWAY or (
        error.is_server_error() and "shutting down" in str(error.explanation).lower()
    )


def event_action(event: dict[str, Any]) -> tuple[str, str]:
    attributes = (event.get("Actor") or {}).get("Attributes") or {}
    return str(event.get("Action")), str(attributes.get("signal", ""))


def instant(text: str) -> float:
    """Seconds since the epoch of the engine's RFC 3339 text, whose nanoseconds Python does not read."""
    head, _, tail = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{head}.{tail[:6]:0<6}+00:00").timestamp()


def lines_mended(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The parts of a log, with the line breaks that the engine has lost.

    The `local` driver of Docker Engine 20.10 forgets the break behind a line that it has cut. Such a line ends with a part
    that is shorter, has no break, and is not the log's last. (Of a line of exactly such parts nobody can tell.)
    """
    cut = owed = False
    for part in parts:
        if owed:
            yield b"\n"
        whole_part = len(part) == LINE_PART_BYTES and not part.endswith(b"\n")
        owed = cut and not whole_part and not part.endswith(b"\n")
        cut = whole_part
        yield part

"""Versions of the protocol and of the agent, and how two agent versions compare."""

from functools import lru_cache

PROTOCOL = 1

AGENT_VERSION = "0.1.0"
# Older agents are answered 426 and take no new work; their running jobs go on.
MINIMUM_AGENT_VERSION = "0.1.0"


def version_tuple(version: str) -> tuple[int, ...]:
    """The leading dotted numbers of a version: "24.0.7-ce" → (24, 0, 7); () when it starts with none.

    Parts that follow the first part without digits are ignored, so that a distribution's suffix never refuses a host.
    """
    parts: list[int] = []
    for part in version.strip().lstrip("v").split("."):
        digits = ""
        for character in part:
            if not ("0" <= character <= "9"):
                break
            digits += character
        if not digits:
            break
        parts.append(int(digits[:9]))
        if len(digits) != len(part):
            break
    return tuple(parts)


@lru_cache(maxsize=1024)
def version_at_least(version: str, minimum: str) -> bool:
    """Whether `version` is `minimum` or newer; missing parts count as 0, an unreadable version is too old."""
    found, wanted = version_tuple(version), version_tuple(minimum)
    if not found:
        return False
    width = max(len(found), len(wanted))
    return found + (0,) * (width - len(found)) >= wanted + (0,) * (width - len(wanted))

"""Why the guard does not pass a request on."""

import json
from typing import Any

_SHOWN = 80


class GuardError(Exception):
    """Answered with `status` and Docker's `{"message": …}`."""

    status = 500

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Refused(GuardError):
    """Not on the list. `where` names the field, `found` what stood there (never a value of the customer's)."""

    status = 403

    def __init__(self, where: str, found: str, allowed: str) -> None:
        super().__init__(f"guard: {where}: found {found}, allowed: {allowed}")
        self.where = where
        self.found = found
        self.allowed = allowed


class Absent(GuardError):
    """It does not exist, or belongs to somebody else, which is the same to who asks."""

    status = 404


class NameTaken(GuardError):
    """Something that is not ours bears this name."""

    status = 409


class Busy(GuardError):
    """More connections than the guard serves at once."""

    status = 503


class EngineAway(GuardError):
    """The engine did not answer, or not in a way that can be passed on."""

    status = 502

    def __init__(self, detail: str) -> None:
        super().__init__(f"guard: the engine does not answer ({detail})")


def shown(value: Any) -> str:
    """A value for a person to read, short; of lists and objects only that they are one."""
    if isinstance(value, dict):
        return f"an object of {len(value)} fields"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"

"""Named errors. A service raises one; a door (page, API, admin, command) turns it into words for the person before it.

``fields`` maps an input's name to what was found and what is allowed, so that every form can say it beside the field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.utils.translation import gettext as _


class DomainError(Exception):
    """Something the domain refuses. Nothing has moved when it is raised.

    code: stable machine name, e.g. ``insufficient_funds``. message: one sentence for a person.
    fields: {field name: [sentences]}.
    """

    code = "refused"
    status = 409

    def __init__(
        self, message: str, *, code: str | None = None, fields: Mapping[str, Sequence[str] | str] | None = None
    ):
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code
        self.fields: dict[str, list[str]] = {
            name: [texts] if isinstance(texts, str) else list(texts) for name, texts in (fields or {}).items()
        }


class Invalid(DomainError):
    """Input outside what is allowed (HTTP 400)."""

    code = "invalid"
    status = 400

    @classmethod
    def field(cls, name: str, *, found: object, allowed: str) -> Invalid:
        sentence = _("Found %(found)r; allowed: %(allowed)s.") % {"found": found, "allowed": allowed}
        return cls(f"{name}: {sentence}", fields={name: sentence})


class Denied(DomainError):
    """The actor may see the thing but not do this to it (HTTP 403)."""

    code = "denied"
    status = 403


class NotFound(DomainError):
    """It does not exist, or it is not yours: the two must look alike (HTTP 404)."""

    code = "not_found"
    status = 404


class Conflict(DomainError):
    """Somebody was there first, or the state does not allow it now (HTTP 409)."""

    code = "conflict"
    status = 409


class StaleState(Conflict):
    """A status was not what the caller believed when the conditional UPDATE ran."""

    code = "stale_state"


class MoveNotAllowed(Conflict):
    """The allowed-moves table has no such move."""

    code = "move_not_allowed"


class InsufficientFunds(DomainError):
    """The balance less holds does not cover it (HTTP 402)."""

    code = "insufficient_funds"
    status = 402


class Unauthorized(DomainError):
    """Nobody we know, or no longer: a credential or token that opens nothing (HTTP 401)."""

    code = "unauthorized"
    status = 401


class UpgradeRequired(DomainError):
    """The caller speaks a version that is no longer served (HTTP 426)."""

    code = "upgrade"
    status = 426


class SlowDown(DomainError):
    """Too many requests (HTTP 429); ``retry_after_s`` says when the next one is welcome."""

    code = "slow_down"
    status = 429

    def __init__(self, message: str, *, retry_after_s: int):
        super().__init__(message)
        self.retry_after_s = retry_after_s

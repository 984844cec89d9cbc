"""Wire types of message fields and the base class that reads and writes them.

A message is a frozen keyword-only dataclass whose fields are made by the functions below (`text()`, `integer()`, …).
Reading is strict: a wrong type, an over-long text, NaN, a stray field or a lone surrogate is a `ProtocolError` naming
the field. A nullable field that is absent is null.
"""

import json
import math
import re
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, ClassVar, Self, dataclass_transform
from uuid import UUID

from agent_protocol.errors import ProtocolError
from agent_protocol.logins import is_printable

MAX_BODY_BYTES = 1024 * 1024
# Counts and bytes must survive a JSON reader that stores numbers as doubles.
MAX_INTEGER = 2**53 - 1

_WIRE = "wire"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SURROGATE = re.compile("[\ud800-\udfff]")


class Wire:
    """How one value is read from and written to JSON."""

    def read(self, value: Any, path: str) -> Any:
        raise NotImplementedError

    def write(self, value: Any) -> Any:
        return value


@dataclass(frozen=True)
class Text(Wire):
    """A text; `multiline` lets tab and line breaks through (never NUL, which PostgreSQL cannot store)."""

    max_length: int
    min_length: int = 0
    pattern: str | None = None
    multiline: bool = False

    def read(self, value: Any, path: str) -> str:
        if not isinstance(value, str):
            raise ProtocolError(path, value, "a text")
        if not self.min_length <= len(value) <= self.max_length:
            found = f"a text of {len(value)} characters"
            raise ProtocolError(path, found, f"{self.min_length} to {self.max_length} characters")
        bad = "\x00" in value if self.multiline else _CONTROL.search(value)
        if bad or _SURROGATE.search(value):
            raise ProtocolError(path, "a text with control characters", "a text without control characters")
        if self.pattern is not None and not re.fullmatch(self.pattern, value):
            raise ProtocolError(path, value, f"a text like {self.pattern}")
        return value


@dataclass(frozen=True)
class SecretText(Wire):
    """A text of printable ASCII that no error ever shows."""

    max_length: int

    def read(self, value: Any, path: str) -> str:
        if not isinstance(value, str) or not 1 <= len(value) <= self.max_length or not is_printable(value):
            raise ProtocolError(path, "something else", f"1 to {self.max_length} printable ASCII characters")
        return value


class UuidText(Wire):
    """A UUID in its canonical lower-case form."""

    def read(self, value: Any, path: str) -> str:
        if isinstance(value, str) and len(value) == 36:
            try:
                return str(UUID(value))
            except ValueError:
                pass
        raise ProtocolError(path, value, "a UUID")


@dataclass(frozen=True)
class Integer(Wire):
    minimum: int = 0
    maximum: int = MAX_INTEGER

    def read(self, value: Any, path: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise ProtocolError(path, value, "an integer")
        if not self.minimum <= value <= self.maximum:
            raise ProtocolError(path, value, f"{self.minimum} to {self.maximum}")
        return value


@dataclass(frozen=True)
class Number(Wire):
    """A finite number; integers are read as floats."""

    minimum: float = 0.0
    maximum: float = 1e15

    def read(self, value: Any, path: str) -> float:
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise ProtocolError(path, value, "a number")
        if isinstance(value, float) and not math.isfinite(value):
            raise ProtocolError(path, value, "a finite number")
        if not self.minimum <= value <= self.maximum:
            raise ProtocolError(path, value, f"{self.minimum} to {self.maximum}")
        return float(value)


class Boolean(Wire):
    def read(self, value: Any, path: str) -> bool:
        if not isinstance(value, bool):
            raise ProtocolError(path, value, "true or false")
        return value


@dataclass(frozen=True)
class Choice(Wire):
    options: tuple[str, ...]

    def read(self, value: Any, path: str) -> str:
        if not isinstance(value, str) or value not in self.options:
            raise ProtocolError(path, value, " | ".join(self.options))
        return value


@dataclass(frozen=True)
class Nullable(Wire):
    inner: Wire

    def read(self, value: Any, path: str) -> Any:
        return None if value is None else self.inner.read(value, path)

    def write(self, value: Any) -> Any:
        return None if value is None else self.inner.write(value)


@dataclass(frozen=True)
class ListOf(Wire):
    inner: Wire
    max_items: int

    def read(self, value: Any, path: str) -> tuple[Any, ...]:
        if not isinstance(value, (list, tuple)):
            raise ProtocolError(path, value, "a list")
        if len(value) > self.max_items:
            raise ProtocolError(path, value, f"at most {self.max_items} items")
        return tuple(self.inner.read(item, f"{path}.{number}") for number, item in enumerate(value))

    def write(self, value: Any) -> list[Any]:
        return [self.inner.write(item) for item in value]


@dataclass(frozen=True)
class MapOf(Wire):
    """An object with text keys that match `key`."""

    inner: Wire
    max_items: int
    key: str

    def read(self, value: Any, path: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ProtocolError(path, value, "an object")
        if len(value) > self.max_items:
            raise ProtocolError(path, value, f"at most {self.max_items} entries")
        for name in value:
            if not isinstance(name, str) or not re.fullmatch(self.key, name):
                raise ProtocolError(path, name, f"keys like {self.key}")
        return {name: self.inner.read(item, f"{path}.{name}") for name, item in value.items()}

    def write(self, value: Any) -> dict[str, Any]:
        return {name: self.inner.write(item) for name, item in value.items()}


class AnyObject(Wire):
    """An object read later by the message its `kind` names."""

    def read(self, value: Any, path: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ProtocolError(path, value, "an object")
        return value


@dataclass(frozen=True)
class Nested(Wire):
    message: "type[Message]"

    def read(self, value: Any, path: str) -> "Message":
        try:
            return self.message.parse(value)
        except ProtocolError as error:
            raise error.under(path) from None

    def write(self, value: Any) -> dict[str, Any]:
        written: dict[str, Any] = value.to_dict()
        return written


def wire(kind: Wire) -> Any:
    """A message field; nullable ones default to null."""
    if isinstance(kind, Nullable):
        return field(default=None, metadata={_WIRE: kind})
    return field(metadata={_WIRE: kind})


def text(max_length: int, *, min_length: int = 0, pattern: str | None = None) -> Any:
    return wire(Text(max_length, min_length, pattern))


def secret_text(max_length: int) -> Any:
    """Required, and not part of the message's repr."""
    return field(repr=False, metadata={_WIRE: SecretText(max_length)})


def optional_text(max_length: int) -> Any:
    return wire(Nullable(Text(max_length)))


def integer(minimum: int = 0, maximum: int = MAX_INTEGER) -> Any:
    return wire(Integer(minimum, maximum))


def optional_integer(minimum: int = 0, maximum: int = MAX_INTEGER) -> Any:
    return wire(Nullable(Integer(minimum, maximum)))


def optional_number(minimum: float = 0.0, maximum: float = 1e15) -> Any:
    return wire(Nullable(Number(minimum, maximum)))


def optional_boolean() -> Any:
    return wire(Nullable(Boolean()))


def nested(message: "type[Message]") -> Any:
    return wire(Nested(message))


def messages(message: "type[Message]", max_items: int) -> Any:
    return wire(ListOf(Nested(message), max_items))


@dataclass_transform(frozen_default=True, kw_only_default=True)
@dataclass(frozen=True, kw_only=True)
class Message:
    """Base of all messages. Subclasses are `@dataclass(frozen=True, kw_only=True)`.

    `STRAY_FIELDS_IGNORED` is set on what the platform answers: an agent outlives the platform's next release, so a
    field it does not know must not stop it. What an agent sends is read without mercy.
    """

    STRAY_FIELDS_IGNORED: ClassVar[bool] = False

    @classmethod
    def parse(cls, value: Any) -> Self:
        """The message in a JSON object. Raises ProtocolError."""
        if not isinstance(value, dict):
            raise ProtocolError("", value, "an object")
        known = wires_of(cls)
        if not cls.STRAY_FIELDS_IGNORED:
            for name in value:
                if name not in known:
                    raise ProtocolError(str(name)[:64], "a field", "only " + ", ".join(known))
        read: dict[str, Any] = {}
        for name, kind in known.items():
            if name in value:
                read[name] = kind.read(value[name], name)
            elif isinstance(kind, Nullable):
                read[name] = None
            else:
                raise ProtocolError(name, "nothing", "a value (required)")
        message = cls(**read)
        message.check()
        return message

    def check(self) -> None:
        """Rules that span several fields; raises ProtocolError."""

    def to_dict(self) -> dict[str, Any]:
        """The message as JSON-ready containers; `parse` reads it back to an equal message."""
        return {name: kind.write(getattr(self, name)) for name, kind in wires_of(type(self)).items()}


_WIRES: dict[type[Message], dict[str, Wire]] = {}


def wires_of(message: type[Message]) -> dict[str, Wire]:
    """Field name → its wire type. Asked for every message that is read or written, so it is worked out once."""
    known = _WIRES.get(message)
    if known is None:
        known = _WIRES[message] = {each.name: each.metadata[_WIRE] for each in fields(message)}
    return known


def json_read(body: bytes) -> Any:
    """The JSON value in a request or reply body. Raises ProtocolError: too long, not UTF-8, not JSON, NaN, too deep."""
    if len(body) > MAX_BODY_BYTES:
        raise ProtocolError("", f"{len(body)} bytes", f"at most {MAX_BODY_BYTES} bytes")
    try:
        return json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
    except ProtocolError:
        raise
    except (ValueError, RecursionError):
        raise ProtocolError("", "something else", "JSON in UTF-8") from None


def json_write(value: Any) -> bytes:
    """Compact UTF-8 JSON; a NaN is a programming error and raises ValueError."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("utf-8")


def _refuse_constant(name: str) -> Any:
    raise ProtocolError("", name, "finite numbers only")


def instant_check(field: str, value: str) -> None:
    """For `check`: an ISO 8601 instant with its offset. Raises ProtocolError."""
    try:
        instant = datetime.fromisoformat(value)
    except ValueError:
        raise ProtocolError(field, value, "an ISO 8601 instant") from None
    if instant.tzinfo is None:
        raise ProtocolError(field, value, "an ISO 8601 instant with its offset from UTC")

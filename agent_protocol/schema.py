"""Messages as JSON Schema (2020-12), for descriptions that programs read; made from the wire types, so they cannot differ."""

from typing import Any

from agent_protocol.fields import (
    AnyObject,
    Boolean,
    Choice,
    Integer,
    ListOf,
    MapOf,
    Message,
    Nested,
    Nullable,
    Number,
    SecretText,
    Text,
    UuidText,
    Wire,
    wires_of,
)


def message_schema(message: type[Message], *, prefix: str) -> tuple[dict[str, Any], set[type[Message]]]:
    """The schema of a message, and the messages it refers to as `<prefix><name>`."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    used: set[type[Message]] = set()
    for name, kind in wires_of(message).items():
        properties[name] = _schema(kind, prefix, used)
        if not isinstance(kind, Nullable):
            required.append(name)
    schema: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
    if message.__doc__ and not message.__doc__.startswith(f"{message.__name__}("):
        schema["description"] = " ".join(message.__doc__.split())
    # What an agent sends is read without mercy; what it hears may grow.
    schema["additionalProperties"] = message.STRAY_FIELDS_IGNORED
    return schema, used


def _schema(kind: Wire, prefix: str, used: set[type[Message]]) -> dict[str, Any]:
    match kind:
        case Nullable(inner):
            found = _schema(inner, prefix, used)
            return {"anyOf": [found, {"type": "null"}]}
        case Text(most, least, pattern):
            text: dict[str, Any] = {"type": "string", "maxLength": most}
            return text | ({"minLength": least} if least else {}) | ({"pattern": f"^(?:{pattern})$"} if pattern else {})
        case SecretText(most):
            return {"type": "string", "minLength": 1, "maxLength": most, "pattern": "^[ -~]+$"}
        case UuidText():
            return {"type": "string", "format": "uuid"}
        case Integer(least, most):
            return {"type": "integer", "minimum": least, "maximum": most}
        case Number(least, most):
            return {"type": "number", "minimum": least, "maximum": most}
        case Boolean():
            return {"type": "boolean"}
        case Choice(options):
            return {"type": "string", "enum": list(options)}
        case ListOf(inner, most):
            return {"type": "array", "items": _schema(inner, prefix, used), "maxItems": most}
        case MapOf(inner, most, key):
            values = _schema(inner, prefix, used)
            return {
                "type": "object",
                "additionalProperties": values,
                "maxProperties": most,
                "propertyNames": {"pattern": f"^(?:{key})$"},
            }
        case AnyObject():
            return {"type": "object", "additionalProperties": True}
        case Nested(message):
            used.add(message)
            return {"$ref": f"#/components/schemas/{prefix}{message.__name__}"}
    raise TypeError(f"no schema for {type(kind).__name__}")

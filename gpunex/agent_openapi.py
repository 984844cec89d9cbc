"""The agents' endpoints in the description of the API, from the protocol's own table and messages."""

from __future__ import annotations

from typing import Any

from agent_protocol.endpoints import ENDPOINTS, REFUSALS, Bytes, Endpoint
from agent_protocol.fields import Message
from agent_protocol.messages import RefusalReply
from agent_protocol.messages.events import EVENT_BODIES
from agent_protocol.messages.plan import AttemptPlan, BenchmarkPlan
from agent_protocol.schema import message_schema

PREFIX = "Agent"
SECURITY = "machineCredential"
READ_LATER: tuple[type[Message], ...] = (*EVENT_BODIES.values(), AttemptPlan, BenchmarkPlan)
"""Bodies inside an event or a plan item, which name their kind beside them."""


def agent_paths_add(result: dict[str, Any], **_options: Any) -> dict[str, Any]:
    """A post-processing hook of drf-spectacular: adds paths, schemas and the machines' way to prove themselves."""
    for endpoint in ENDPOINTS:
        result["paths"].setdefault(endpoint.path, {})[endpoint.method] = _operation(endpoint)
    components = result.setdefault("components", {})
    components.setdefault("schemas", {}).update(_schemas())
    components.setdefault("securitySchemes", {})[SECURITY] = {"type": "http", "scheme": "bearer"}
    return result


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": "_".join(
            part for part in endpoint.path.split("/") if part not in ("", "v1") and "{" not in part
        ),
        "summary": endpoint.summary,
        "tags": ["agent"],
        "security": [{SECURITY: []}] if endpoint.authorized else [],
        "parameters": [
            {"name": part[1:-1], "in": "path", "required": True, "schema": {"type": "string", "format": "uuid"}}
            for part in endpoint.path.split("/")
            if part.startswith("{")
        ],
        "responses": {
            **{str(status): _answer(endpoint.reply, endpoint.summary) for status in endpoint.statuses},
            **{str(status): _answer(RefusalReply, why) for status, why in REFUSALS.items()},
        },
    }
    if endpoint.request is not None:
        operation["requestBody"] = {"required": True, "content": _content(endpoint.request)}
    return operation


def _answer(message: type[Message] | Bytes | None, description: str) -> dict[str, Any]:
    return {"description": description} | ({} if message is None else {"content": _content(message)})


def _content(message: type[Message] | Bytes) -> dict[str, Any]:
    if isinstance(message, Bytes):
        return {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{PREFIX}{message.__name__}"}}}


def _schemas() -> dict[str, dict[str, Any]]:
    """Every message that the endpoints use, however deep."""
    wanted: set[type[Message]] = {RefusalReply, *READ_LATER}
    for endpoint in ENDPOINTS:
        wanted |= {each for each in (endpoint.request, endpoint.reply) if isinstance(each, type)}
    found: dict[str, dict[str, Any]] = {}
    while wanted:
        message = wanted.pop()
        name = PREFIX + message.__name__
        if name not in found:
            found[name], used = message_schema(message, prefix=PREFIX)
            wanted |= used
    return dict(sorted(found.items()))

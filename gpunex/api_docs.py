"""``/api/docs/``: the API for people to read, made from the same description that ``/api/schema/`` gives to programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator

METHODS = ("get", "post", "put", "patch", "delete")

NOTHING: dict[str, Any] = {}


@dataclass(frozen=True)
class Field:
    name: str
    kind: str
    required: bool
    note: str


@dataclass
class Operation:
    """One method of one path, flattened for a page."""

    method: str
    path: str
    summary: str
    parameters: list[Field] = field(default_factory=list)
    body: list[Field] = field(default_factory=list)
    answers: list[tuple[str, str]] = field(default_factory=list)

    @property
    def anchor(self) -> str:
        return f"{self.method}{self.path}".replace("/", "-").replace("{", "").replace("}", "").strip("-")


@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    schema = SchemaGenerator().get_schema(request=None, public=True)
    groups: dict[str, list[Operation]] = {}
    for path, methods in schema["paths"].items():
        for method in METHODS:
            if method in methods:
                operation = _operation(schema, path, method, methods[method])
                groups.setdefault(_group(path), []).append(operation)
    return render(request, "gpunex/api_docs.html", {"groups": groups, "info": schema["info"]})


def _group(path: str) -> str:
    """The second part of the path: ``/api/v1/jobs/…`` belongs to ``jobs``."""
    return next((part for part in path.split("/")[3:] if part and not part.startswith("{")), path)


def _operation(schema: dict[str, Any], path: str, method: str, given: dict[str, Any]) -> Operation:
    content = given.get("requestBody", {}).get("content", {})
    body = next(iter(content.values()), NOTHING).get("schema", {})
    return Operation(
        method=method.upper(),
        path=path,
        summary=given.get("summary") or given.get("description", ""),
        parameters=[
            Field(
                each["name"],
                _kind(schema, each.get("schema", {})),
                each.get("required", False),
                each.get("description", ""),
            )
            for each in given.get("parameters", [])
        ],
        body=_fields(schema, body),
        answers=[
            (status, _kind(schema, next(iter(answer.get("content", {}).values()), NOTHING).get("schema", {})))
            for status, answer in given.get("responses", {}).items()
        ],
    )


def _resolved(schema: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """The part itself, or what its ``$ref`` names."""
    if "allOf" in part and len(part["allOf"]) == 1:
        part = part["allOf"][0]
    if "$ref" in part:
        found: dict[str, Any] = schema["components"]["schemas"][part["$ref"].rpartition("/")[2]]
        return found
    return part


def _fields(schema: dict[str, Any], part: dict[str, Any]) -> list[Field]:
    whole = _resolved(schema, part)
    required = set(whole.get("required", []))
    return [
        Field(name, _kind(schema, inner), name in required, inner.get("description", ""))
        for name, inner in whole.get("properties", {}).items()
    ]


def _kind(schema: dict[str, Any], part: dict[str, Any]) -> str:
    """A schema in a few words: ``string (uuid)``, ``list of Listing``, ``one of a, b``."""
    if "$ref" in part:
        whole = _resolved(schema, part)
        return _kind(schema, whole) if "enum" in whole else str(part["$ref"].rpartition("/")[2])
    if "enum" in part:
        return "one of " + ", ".join(str(value) for value in part["enum"])
    if part.get("type") == "array":
        return f"list of {_kind(schema, part.get('items', {}))}"
    kind = str(part.get("type", "")) + (f" ({part['format']})" if "format" in part else "")
    return kind or ("object" if part else "–")

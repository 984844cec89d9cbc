"""The description of the agents' API is whole and true: every route, every message, and no body it would not accept."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest
from django.test import Client
from django.urls import get_resolver
from jsonschema import Draft202012Validator

from agent_protocol import messages as wire
from agent_protocol.endpoints import ENDPOINTS
from agent_protocol.errors import ProtocolError
from agent_protocol.fields import Message, wires_of
from gpunex.agent_openapi import agent_paths_add
from tests.agent_protocol.samples import SAMPLES


@cache
def description() -> dict[str, Any]:
    return agent_paths_add({"paths": {}})


def validator(message: type[Message]) -> Draft202012Validator:
    schema = {"$ref": f"#/components/schemas/Agent{message.__name__}", "components": description()["components"]}
    return Draft202012Validator(schema)


def routes() -> set[str]:
    """Every path under agent/v1, with {name} for its arguments."""
    found = set()
    for pattern in get_resolver().url_patterns:
        if str(pattern.pattern) == "agent/v1/":
            found = {"/agent/v1/" + re.sub(r"<\w+:(\w+)>", r"{\1}", str(each.pattern)) for each in pattern.url_patterns}
    return found


def test_every_route_for_agents_is_described_and_no_other() -> None:
    assert {endpoint.path for endpoint in ENDPOINTS} == routes()
    assert set(description()["paths"]) == routes()


def test_every_message_has_a_schema_and_every_reference_a_target() -> None:
    schemas = description()["components"]["schemas"]
    messages = {f"Agent{name}" for name in wire.__all__ if isinstance(getattr(wire, name), type)}
    assert messages == set(schemas)
    for name, schema in schemas.items():
        Draft202012Validator.check_schema(schema)
        for target in re.findall(r"'\$ref': '#/components/schemas/(\w+)'", str(schema)):
            assert target in schemas, (name, target)


@pytest.mark.parametrize(("message", "body"), SAMPLES, ids=lambda value: getattr(value, "__name__", ""))
def test_what_a_message_accepts_its_schema_accepts(message: type[Any], body: dict[str, Any]) -> None:
    validator(message).validate(body)
    for name in wires_of(message):
        without = {key: value for key, value in body.items() if key != name}
        assert validator(message).is_valid(without) is _parses(message, without), name
    stray = body | {"stray": 1}
    assert validator(message).is_valid(stray) is _parses(message, stray)


@pytest.mark.parametrize(("message", "body"), SAMPLES, ids=lambda value: getattr(value, "__name__", ""))
@pytest.mark.parametrize("wrong", [[], {}, "x" * 40_000, -1, 2**70, 0.5])
def test_what_its_schema_refuses_a_message_refuses(message: type[Any], body: dict[str, Any], wrong: object) -> None:
    for name in body:
        bad = body | {name: wrong}
        if not validator(message).is_valid(bad):
            assert not _parses(message, bad), (name, wrong)


def _parses(message: type[Any], body: dict[str, Any]) -> bool:
    try:
        message.parse(body)
    except ProtocolError:
        return False
    return True


@pytest.mark.django_db
def test_it_is_part_of_the_api_for_programs_and_of_the_page_for_people(client: Client) -> None:
    schema = client.get("/api/schema/?format=json", headers={"accept": "application/json"}).json()
    assert routes() <= set(schema["paths"])
    sync = schema["paths"]["/agent/v1/sync"]["post"]
    assert sync["security"] == [{"machineCredential": []}]
    assert set(sync["responses"]) >= {"200", "400", "401", "413", "426", "429"}
    page = client.get("/api/docs/").content.decode()
    assert "<code>/agent/v1/sync</code>" in page
    assert "inventory_digest" in page

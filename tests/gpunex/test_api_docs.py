from __future__ import annotations

import pytest
from django.test import Client

from gpunex.api_docs import _fields, _kind

SCHEMA = {
    "components": {
        "schemas": {
            "Color": {"enum": ["red", "blue"], "type": "string"},
            "Job": {
                "required": ["image"],
                "properties": {
                    "image": {"type": "string", "description": "What runs."},
                    "paint": {"$ref": "#/components/schemas/Color"},
                },
            },
        }
    }
}


@pytest.mark.django_db
def test_every_described_path_is_on_the_page(client: Client) -> None:
    schema = client.get("/api/schema/?format=json", headers={"accept": "application/json"})
    assert schema.status_code == 200
    page = client.get("/api/docs/").content.decode()
    for path in schema.json()["paths"]:
        assert f"<code>{path}</code>" in page


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"type": "string", "format": "uuid"}, "string (uuid)"),
        ({"$ref": "#/components/schemas/Job"}, "Job"),
        ({"$ref": "#/components/schemas/Color"}, "one of red, blue"),
        ({"type": "array", "items": {"$ref": "#/components/schemas/Job"}}, "list of Job"),
        ({}, "–"),
    ],
)
def test_a_schema_in_a_few_words(part: dict[str, object], words: str) -> None:
    assert _kind(SCHEMA, part) == words


def test_a_body_is_listed_field_by_field() -> None:
    image, paint = _fields(SCHEMA, {"$ref": "#/components/schemas/Job"})
    assert (image.name, image.required, image.note) == ("image", True, "What runs.")
    assert (paint.kind, paint.required) == ("one of red, blue", False)

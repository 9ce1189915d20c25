"""Which schemas an answer is bound to, and that none of them can hang or end the program."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chatcli.errors import SchemaRefused
from chatcli.replies.answer_form import form_of, schema_text

A, B = {"properties": {"a": {"type": "string"}}}, {"properties": {"b": {"type": "string"}}}
CLOSED = {"additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "held"),
    [
        (A, {**A, **CLOSED}),
        ({**A, "additionalProperties": True}, {**A, "additionalProperties": True}),
        ({"items": A}, {"items": {**A, **CLOSED}}),
        ({"$defs": {"a": A}, "anyOf": [A]}, {"$defs": {"a": {**A, **CLOSED}}, "anyOf": [{**A, **CLOSED}]}),
        # Each of these adds to the other's properties.
        ({"allOf": [A, B]}, {"allOf": [A, B]}),
        ({**A, "anyOf": [B]}, {**A, "anyOf": [B]}),
        # A name and a value, not keywords.
        ({"enum": [A]}, {"enum": [A]}),
        ({"properties": {"allOf": A}}, {"properties": {"allOf": {**A, **CLOSED}}, **CLOSED}),
        ({"properties": {"a": True}}, {"properties": {"a": True}, **CLOSED}),
    ],
)
def test_objects_have_the_properties_that_their_schema_names(schema: Any, held: Any) -> None:
    written = json.loads(schema_text(schema))
    del written["x-guidance"]
    assert held == written


def deep(levels: int) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


@pytest.mark.parametrize(
    "schema", [5, [], None, True, deep(70), deep(3000), {"anyOf": 7}, {"properties": 5}, {"type": []}]
)
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    with pytest.raises(SchemaRefused):
        form_of(schema)


def test_a_schema_that_is_deep_but_in_bounds_is_held() -> None:
    assert form_of(deep(30)).schema == schema_text(deep(30))

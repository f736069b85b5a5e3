"""JSON schemas become grammars; what would not end well is refused."""

from __future__ import annotations

from typing import Any

import pytest

from engine.worker.grammar import MAX_REPETITIONS, BadSchema, grammar_of


def test_a_schema_becomes_a_grammar_with_a_root() -> None:
    schema = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
    grammar = grammar_of(schema)
    assert "root ::=" in grammar
    assert "age" in grammar


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "maxLength": 10**9},
        {"type": "array", "items": {}, "minItems": MAX_REPETITIONS + 1},
        {"type": "string", "pattern": "^a{99999}$"},
        {"type": "string", "pattern": "no anchors"},
        {"$ref": "https://example.org/schema.json"},
        {"$ref": "#/nowhere"},
        {"type": "no such type"},
        {"properties": 3},
        {"enum": 4},
        {"anyOf": [{}] * 6000},
    ],
)
def test_a_schema_that_cannot_be_followed_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(BadSchema) as refused:
        grammar_of(schema)
    assert refused.value.data["problem"]


def test_a_bottomless_schema_is_refused() -> None:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(3000):
        schema = {"type": "array", "items": schema}
    with pytest.raises(BadSchema):
        grammar_of(schema)

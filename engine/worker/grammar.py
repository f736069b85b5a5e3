"""Turns a JSON schema into a grammar that answers must follow, with the library's own converter."""

from __future__ import annotations

import functools
import importlib.util
import json
import re
from collections.abc import Callable, Iterator
from typing import Any, cast

from engine.errors import TwofoldError
from engine.native import library_folder

# The converter writes repetitions out, so a schema of a few bytes could ask for any amount.
MAX_REPETITIONS = 1000
MAX_PARTS = 5000
_LARGE_QUANTIFIER = re.compile(r"\{[^}]*\d{4}")
_REPETITIONS = ("minLength", "maxLength", "minItems", "maxItems")


class BadSchema(TwofoldError):
    """A schema that cannot be followed. Data: `problem`."""

    code = "grammar.bad_schema"


def grammar_of(schema: dict[str, Any]) -> str:
    """The schema as GBNF. Raises BadSchema."""
    _check(schema)
    try:
        return _converter()(json.dumps(schema))
    except Exception as error:  # the converter asserts, and raises whatever comes up
        raise BadSchema(problem=str(error)[:300] or type(error).__name__) from error


def _check(schema: dict[str, Any]) -> None:
    for count, part in enumerate(_parts(schema)):
        if count >= MAX_PARTS:
            raise BadSchema(problem=f"it has more than {MAX_PARTS} parts")
        pattern = part.get("pattern")
        if isinstance(pattern, str) and _LARGE_QUANTIFIER.search(pattern):
            raise BadSchema(problem=f"a pattern repeats more than {MAX_REPETITIONS - 1} times")
        for name in _REPETITIONS:
            value = part.get(name, 0)
            if isinstance(value, int) and not 0 <= value <= MAX_REPETITIONS:
                raise BadSchema(problem=f"{name} is {value}, and at most {MAX_REPETITIONS} works")


def _parts(schema: Any) -> Iterator[dict[str, Any]]:
    """Every mapping in the schema, whatever it is for."""
    waiting: list[Any] = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            mapping = cast("dict[str, Any]", part)
            yield mapping
            waiting += mapping.values()
        elif isinstance(part, list):
            waiting += cast("list[Any]", part)


@functools.cache
def _converter() -> Callable[[str], str]:
    """The module by its file: importing its package would load what is not needed here."""
    file = library_folder().parent / "llama_grammar.py"
    spec = importlib.util.spec_from_file_location("llama_grammar", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.json_schema_to_gbnf

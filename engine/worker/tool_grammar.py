"""The grammar of one call of a tool, in the form that the model's template teaches."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from engine.chat.tools import ToolForm
from engine.errors import TwofoldError
from engine.worker.grammar import BadSchema, grammar_of

# Text between tags: anything but the beginning of a closing one.
_TEXT = r'text ::= ([^<] | "<" [^/])*'
_NAME = re.compile(r"[^\x00-\x1f\x7f<>\[\]\"\\]{1,64}")
# Literals, character classes and names, as they follow each other in a grammar.
_PARTS = re.compile(r'"(?:\\.|[^"\\])*"|\[(?:\\.|[^\]\\])*\]|(?P<name>[A-Za-z][\w-]*)')
_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}

Tool = Mapping[str, Any]
# Gives a call's parts from a tool's name and its parameters' schema, and the rules they need.
Parts = Callable[[str, dict[str, Any], str], tuple[str, list[str]]]


class NoToolForm(TwofoldError):
    """A call was required, and how this model writes one is not known."""

    code = "chat.no_tool_form"


def call_grammar(
    form: ToolForm | None, template: str, tools: Sequence[Tool], names: Sequence[str]
) -> str:
    """The grammar (GBNF) of a call of one of `names`. Raises NoToolForm or BadSchema."""
    if form is None:
        raise NoToolForm
    parts = _parts_of(form, template)
    alternatives: list[str] = []
    rules: list[str] = [_TEXT]
    functions = [cast("Mapping[str, Any]", tool["function"]) for tool in tools]
    for index, function in enumerate(functions):
        name = function["name"]
        if name not in names:
            continue
        if not _NAME.fullmatch(name):
            raise BadSchema(problem=f"a tool cannot be called {name!r}")
        schema: dict[str, Any] = function.get("parameters") or _NO_PARAMETERS
        call, needed = parts(name, schema, f"tool{index}-")
        alternatives.append(call)
        rules += needed
    return "\n".join([f"root ::= {' | '.join(alternatives)}", *rules])


def _parts_of(form: ToolForm, template: str) -> Parts:
    if form.mark == "<function=":
        return _tags
    if form.mark == "[TOOL_CALLS]":
        if "[ARGS]" in template:
            return lambda name, schema, prefix: _json(
                f"{form.start}{name}[ARGS]", schema, prefix, ""
            )
        start, end, key = f"{form.start}[", "]", "arguments"
    elif form.first:
        start, end, key = "", "", "parameters"
    else:
        start, end, key = f"{form.start}\n", f"\n{form.end}", "arguments"

    def parts(name: str, schema: dict[str, Any], prefix: str) -> tuple[str, list[str]]:
        quoted = json.dumps(name, ensure_ascii=False)
        before = f'{start}{{"name": {quoted}, "{key}": '
        return _json(before, schema, prefix, f"}}{end}")

    return parts


def _json(before: str, schema: dict[str, Any], prefix: str, after: str) -> tuple[str, list[str]]:
    """The arguments as one JSON object between two texts."""
    call = f"{_literal(before)} {prefix}root"
    return f"{call} {_literal(after)}" if after else call, [_renamed(grammar_of(schema), prefix)]


def _tags(name: str, schema: dict[str, Any], prefix: str) -> tuple[str, list[str]]:
    """Each argument between tags of its own, text as it is and all else as JSON."""
    call = [_literal(f"<tool_call>\n<function={name}>\n")]
    rules: list[str] = []
    required = schema.get("required", ())
    for index, (key, value) in enumerate(_properties(schema)):
        if not _NAME.fullmatch(key):
            raise BadSchema(problem=f"a parameter cannot be called {key!r}")
        if _is_text_choice(value):
            rule = "(" + " | ".join(_literal(each) for each in value["enum"]) + ")"
        elif value.get("type") == "string":
            rule = "text"
        else:
            inner = f"{prefix}{index}-"
            definitions = {
                each: schema[each] for each in ("$defs", "definitions") if each in schema
            }
            rules.append(_renamed(grammar_of({**definitions, **value}), inner))
            rule = f"{inner}root"
        start, end = _literal(f"<parameter={key}>\n"), _literal("\n</parameter>\n")
        argument = f"{start} {rule} {end}"
        call.append(argument if key in required else f"({argument})?")
    call.append(_literal("</function>\n</tool_call>"))
    return " ".join(call), rules


def _properties(schema: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    properties = schema.get("properties")
    if isinstance(properties, dict):
        for key, value in cast("dict[str, Any]", properties).items():
            yield key, cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _is_text_choice(value: Mapping[str, Any]) -> bool:
    choices = value.get("enum")
    return isinstance(choices, list) and all(
        isinstance(each, str) for each in cast("list[Any]", choices)
    )


def _literal(text: str) -> str:
    escaped = text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
    return f'"{escaped}"'


def _renamed(grammar: str, prefix: str) -> str:
    """The grammar with `prefix` before each of its rules' names."""

    def rename(part: re.Match[str]) -> str:
        return prefix + part["name"] if part["name"] else part[0]

    return _PARTS.sub(rename, grammar)

"""Finds calls of tools in an answer, in the form that the model's template teaches."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from engine.api.messages import ToolCall
from engine.api.turn import AnswerText, ToolCallMade

Tools = Sequence[Mapping[str, Any]]
# Gives the calls that a block holds. Raises ValueError, KeyError or TypeError if it is none.
ReadBlock = Callable[[str, Tools], list[ToolCall]]


@dataclass(frozen=True)
class ToolForm:
    """`mark` in a template tells that its model writes calls this way: between `start` and `end`,
    or to the end of the answer. `first` forms count at the answer's beginning only, and `start`
    belongs to the call."""

    mark: str
    start: str
    end: str | None
    read: ReadBlock
    first: bool = False


def _call(name: Any, arguments: Any) -> ToolCall:
    if not isinstance(name, str) or not name:
        raise ValueError("a call without a name")
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return ToolCall(id=f"call_{secrets.token_hex(12)}", name=name, arguments=text)


def _read_json(block: str, _: Tools) -> list[ToolCall]:
    """One call or a list of them: `{"name", "arguments"}`, or `parameters` as Llama says."""
    found: Any = json.loads(block.strip())
    calls = cast("list[Any]", found) if isinstance(found, list) else [found]
    return [
        _call(each["name"], each["arguments"] if "arguments" in each else each["parameters"])
        for each in calls
    ]


_FUNCTION = re.compile(r"<function=([^>\n]+)>(.*?)(?:</function>|\Z)", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^>\n]+)>\n?(.*?)\n?</parameter>", re.DOTALL)


def _read_tags(block: str, tools: Tools) -> list[ToolCall]:
    """Qwen's `<function=NAME><parameter=KEY>VALUE</parameter></function>`."""
    calls: list[ToolCall] = []
    for function in _FUNCTION.finditer(block):
        name = function[1].strip()
        kinds = _kinds(name, tools)
        arguments = {
            key.strip(): _typed(value, kinds.get(key.strip()))
            for key, value in _PARAMETER.findall(function[2])
        }
        calls.append(_call(name, arguments))
    if not calls:
        raise ValueError("no function")
    return calls


def _kinds(name: str, tools: Tools) -> dict[str, Any]:
    """The JSON type of each parameter of the function `name`."""
    for tool in tools:
        function = _mapping(tool.get("function"))
        if function.get("name") == name:
            properties = _mapping(_mapping(function.get("parameters")).get("properties"))
            return {key: _mapping(schema).get("type") for key, schema in properties.items()}
    return {}


def _mapping(value: Any) -> Mapping[str, Any]:
    """A schema comes from a client and may be anything."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _typed(value: str, kind: Any) -> Any:
    """Tags carry text; what the tool does not take as text is read as JSON."""
    if kind == "string":
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _read_mistral(block: str, tools: Tools) -> list[ToolCall]:
    """A list of calls, or `NAME[ARGS]{...}`."""
    name, args, rest = block.partition("[ARGS]")
    if args:
        return [_call(name.strip(), json.loads(rest))]
    return _read_json(block, tools)


# In order: the first whose mark is in the template.
FORMS = (
    ToolForm("<function=", "<tool_call>", "</tool_call>", _read_tags),
    ToolForm("<tool_call>", "<tool_call>", "</tool_call>", _read_json),
    ToolForm("[TOOL_CALLS]", "[TOOL_CALLS]", None, _read_mistral),
    ToolForm("<|python_tag|>", '{"name":', None, _read_json, first=True),
)


def form_of(template: str) -> ToolForm | None:
    """The form that `template` teaches; None if it teaches none that is known."""
    return next((form for form in FORMS if form.mark in template), None)


class ToolStream:
    """Passes an answer's text on, and gives calls in place of the text that they are written in.

    White space around calls is left out. What begins like a call and is none stays text.
    """

    def __init__(self, form: ToolForm, tools: Tools) -> None:
        self._form = form
        self._tools = tools
        self._held = ""
        self._inside = False
        self._gap = ""  # white space before the call
        self._begun = False  # some of the answer is out
        self._called = False

    def feed(self, text: str) -> list[AnswerText | ToolCallMade]:
        events: list[AnswerText | ToolCallMade] = []
        self._held += text
        while self._held:
            done = self._end_block(events) if self._inside else self._find_block(events)
            if done:
                break
        return events

    def flush(self) -> list[AnswerText | ToolCallMade]:
        events: list[AnswerText | ToolCallMade] = []
        if self._inside:
            self._read_block(self._held, events, "")
        elif self._held.strip() or (self._held and not self._called):
            self._text(self._held, events)
        self._held, self._inside = "", False
        return events

    def _find_block(self, events: list[AnswerText | ToolCallMade]) -> bool:
        """Looks for the beginning of a call; true when more text is needed."""
        form = self._form
        if form.first and self._begun:
            self._text(self._held, events)
            self._held = ""
            return True
        at = self._held.find(form.start)
        if at >= 0 and not (form.first and self._held[:at].strip()):
            before = self._held[:at].rstrip()
            self._gap = self._held[len(before) : at]
            if before:
                self._text(before, events)
            self._held = self._held[at + (0 if form.first else len(form.start)) :]
            self._inside = True
            return False
        safe = len(self._held) - _held_back(self._held, form.start)
        if safe:
            self._text(self._held[:safe], events)
            self._held = self._held[safe:]
        return True

    def _end_block(self, events: list[AnswerText | ToolCallMade]) -> bool:
        """Looks for the end of a call; true when more text is needed."""
        end = self._form.end
        at = self._held.find(end) if end else -1
        if end is None or at < 0:
            return True
        called = self._read_block(self._held[:at], events, end)
        rest = self._held[at + len(end) :]
        self._held = rest.lstrip() if called else rest
        self._inside = False
        return False

    def _read_block(self, block: str, events: list[AnswerText | ToolCallMade], end: str) -> bool:
        """Gives the block's calls, or its text if it holds none; true if it does."""
        try:
            calls = self._form.read(block, self._tools)
        except (ValueError, KeyError, TypeError):
            start = "" if self._form.first else self._form.start
            self._text(self._gap + start + block + end, events)
            return False
        self._begun = self._called = True
        events += [ToolCallMade(call=call) for call in calls]
        return True

    def _text(self, text: str, events: list[AnswerText | ToolCallMade]) -> None:
        self._begun = self._begun or bool(text.strip())
        events.append(AnswerText(text=text))


def _held_back(text: str, start: str) -> int:
    """The length of the end of `text` that may turn out to lead up to `start`."""
    for length in range(min(len(start) - 1, len(text)), 0, -1):
        if start.startswith(text[-length:]):
            break
    else:
        length = 0
    rest = text[: len(text) - length]
    return length + len(rest) - len(rest.rstrip())

"""A call that has to be made is made: a real model, bound by the grammar, in every known form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from engine.api.sampling import SamplingSettings
from engine.api.turn import ToolCallMade
from engine.chat.tools import FORMS, ToolForm, ToolStream
from engine.runtime.loaded_model import LoadedModel
from engine.runtime.settings import LoadSettings
from engine.worker.grammar import BadSchema
from engine.worker.tool_grammar import NoToolForm, call_grammar
from tests.support.tiny_models import write_tiny


def tool(name: str, properties: dict[str, Any], required: tuple[str, ...] = ()) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


# Short values, so that a model that knows nothing comes to an end.
TOOLS = [
    tool(
        "look",
        {
            "unit": {"type": "string", "enum": ["metres", "feet"]},
            "often": {"enum": [1, 2, 3]},
            "now": {"type": "boolean"},
        },
        ("unit", "often"),
    ),
    tool("wait", {"how": {"enum": ["here", "there"]}}, ("how",)),
    {"type": "function", "function": {"name": "go"}},
]
CASES = [*((form, form.mark) for form in FORMS), (FORMS[2], "[TOOL_CALLS] [ARGS]")]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoadedModel]:
    path = write_tiny(tmp_path_factory.mktemp("m") / "tiny.gguf", "llama")
    loaded = LoadedModel(path, settings=LoadSettings(context=1024, threads=1))
    yield loaded
    loaded.close()


def written(model: LoadedModel, grammar: str, seed: int) -> str:
    model.keep(0)
    tokens = model.tokenize("What now?", add_special=True, parse_special=True)
    model.prefill(tokens, path="decoder", on_progress=lambda _: None)
    model.start_sampling(SamplingSettings(seed=seed, temperature=1.5))
    model.constrain(grammar)
    text = b""
    for _ in range(400):
        token = model.next_token()
        if model.is_end_of_generation(token):
            return text.decode()
        text += model.piece(token)
    raise AssertionError(f"it does not end: {text!r}")


def call_in(form: ToolForm, text: str) -> tuple[str, Any]:
    """The name and the arguments of the one call that the text holds."""
    stream = ToolStream(form, TOOLS)
    events = [*stream.feed(text), *stream.flush()]
    [made] = events
    assert isinstance(made, ToolCallMade), text
    return made.call.name, json.loads(made.call.arguments)


def check(name: str, arguments: Any) -> None:
    if name == "look":
        assert arguments["unit"] in ("metres", "feet")
        assert arguments["often"] in (1, 2, 3)
        assert set(arguments) <= {"unit", "often", "now"}
        assert isinstance(arguments.get("now", True), bool)
    elif name == "wait":
        assert arguments["how"] in ("here", "there")
    else:
        assert (name, arguments) == ("go", {})


@pytest.mark.parametrize(("form", "template"), CASES, ids=[template for _, template in CASES])
def test_a_required_call_is_one_of_the_tools(
    model: LoadedModel, form: ToolForm, template: str
) -> None:
    grammar = call_grammar(form, template, TOOLS, ["look", "wait", "go"])
    for seed in range(4):
        check(*call_in(form, written(model, grammar, seed)))


@pytest.mark.parametrize("wanted", ["look", "wait", "go"])
@pytest.mark.parametrize(("form", "template"), CASES, ids=[template for _, template in CASES])
def test_a_named_function_is_called_with_arguments_of_its_schema(
    model: LoadedModel, form: ToolForm, template: str, wanted: str
) -> None:
    grammar = call_grammar(form, template, TOOLS, [wanted])
    for seed in range(3):
        name, arguments = call_in(form, written(model, grammar, seed))
        assert name == wanted
        check(name, arguments)


def test_text_between_tags_may_hold_anything_but_their_end(model: LoadedModel) -> None:
    tags = FORMS[0]
    tools = [tool("say", {"words": {"type": "string"}}, ("words",))]
    grammar = call_grammar(tags, tags.mark, tools, ["say"])
    model.keep(0)
    model.prefill([1], path="decoder", on_progress=lambda _: None)
    model.start_sampling(SamplingSettings(seed=1, temperature=1.0))
    model.constrain(grammar)
    text = b"".join(model.piece(model.next_token()) for _ in range(60)).decode("utf-8", "replace")
    start = "<tool_call>\n<function=say>\n<parameter=words>\n"
    assert text.startswith(start)
    assert "</" not in text[len(start) :].removesuffix("</parameter>\n</function>\n</tool_call>")


def test_a_template_without_a_known_form_and_impossible_names_are_refused() -> None:
    with pytest.raises(NoToolForm):
        call_grammar(None, "", TOOLS, ["look"])
    for name in ('say "x"', "a\nb", "x" * 65):
        with pytest.raises(BadSchema):
            call_grammar(FORMS[1], "", [tool(name, {})], [name])
    with pytest.raises(BadSchema):
        call_grammar(FORMS[0], "", [tool("f", {"a>b": {"type": "string"}})], ["f"])

"""OpenAI's requests become the worker's commands; what cannot be served is named."""

from __future__ import annotations

from typing import Any

import pytest

from engine.api.openai import ChatRequest, CompletionRequest
from engine.errors import TwofoldError
from engine.server.errors import BadRequest, Unsupported
from engine.server.requests import ask_commands, complete_commands
from engine.settings import EngineSettings, GenerationSettings, Settings
from engine.worker.protocol import Ask, Complete

USER = {"role": "user", "content": "Hi"}
IMAGE = {"role": "user", "content": [{"type": "image_url"}]}


def ask(settings: Settings | None = None, **fields: Any) -> Ask:
    request = ChatRequest.model_validate({"messages": [USER], **fields})
    [command] = ask_commands(request, settings or Settings(), "id")
    return command


def complete_all(**fields: Any) -> list[Complete]:
    request = CompletionRequest.model_validate({"prompt": "Once", **fields})
    return complete_commands(request, Settings(), "id")


def complete(**fields: Any) -> Complete:
    [command] = complete_all(**fields)
    return command


def test_sampling_fields_are_taken_over() -> None:
    given = {
        "temperature": 0.1, "top_p": 0.2, "top_k": 3, "min_p": 0.4, "presence_penalty": 0.5,
        "frequency_penalty": 0.6, "repeat_penalty": 1.1, "seed": 7, "max_tokens": 8,
    }  # fmt: skip
    sampling = ask(**given).sampling
    assert sampling.model_dump(include=set(given)) == given


def test_what_is_not_given_comes_from_the_settings() -> None:
    settings = Settings(
        generation=GenerationSettings(temperature=0.3, max_tokens=50),
        engine=EngineSettings(path="odp"),
    )
    command = ask(settings)
    assert (command.sampling.temperature, command.sampling.max_tokens) == (0.3, 50)
    assert command.path == "odp"
    assert ask(settings, temperature=0, twofold={"path": "decoder"}).sampling.temperature == 0
    assert ask(settings, twofold={"path": "decoder"}).path == "decoder"


def test_the_newer_name_of_the_token_limit_counts_first() -> None:
    assert ask(max_tokens=5, max_completion_tokens=6).sampling.max_tokens == 6


@pytest.mark.parametrize(
    ("stop", "expected"), [(None, ()), ("END", ("END",)), (["a", "b"], ("a", "b"))]
)
def test_stops_may_be_one_or_several(stop: Any, expected: tuple[str, ...]) -> None:
    assert ask(stop=stop).sampling.stop == expected


def test_edges_that_openai_allows_are_allowed() -> None:
    sampling = ask(top_p=0, top_k=-1, seed=-1).sampling
    assert 0 < sampling.top_p < 0.001
    assert sampling.top_k == 0
    assert sampling.seed == 2**32 - 1


def test_content_in_parts_of_text_is_joined() -> None:
    parts = [{"type": "text", "text": "One"}, {"type": "text", "text": "two"}]
    command = ask(messages=[{"role": "developer", "content": parts}])
    assert (command.messages[0].role, command.messages[0].content) == ("system", "One\ntwo")


def test_tool_calls_and_their_results_are_taken_over() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    command = ask(
        messages=[
            USER,
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "42"},
        ],
        tools=[tool],
    )
    assert command.messages[1].tool_calls[0].arguments == '{"a": 1}'
    assert command.messages[2].tool_call_id == "c1"
    assert command.tools == (tool,)
    assert ask(tools=[tool], tool_choice="none").tools == ()


def test_a_response_format_becomes_a_schema() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    assert ask(response_format=wanted).json_schema == schema
    assert ask(response_format={"type": "json_object"}).json_schema == {"type": "object"}
    assert ask(response_format={"type": "text"}).json_schema is None


def test_template_options_go_to_the_template() -> None:
    command = ask(chat_template_kwargs={"enable_thinking": False}, reasoning_effort="low")
    assert command.template_options == {"enable_thinking": False, "reasoning_effort": "low"}


def test_logprobs_ask_for_the_likeliest() -> None:
    assert ask().sampling.logprobs is None
    assert ask(logprobs=True).sampling.logprobs == 0
    assert ask(logprobs=True, top_logprobs=3).sampling.logprobs == 3
    assert complete(logprobs=2).sampling.logprobs == 2


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"logit_bias": {"5": 1.0}}, "logit_bias"),
        ({"tool_choice": "required", "tools": []}, "tool_choice"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages.0.content",
        ),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"stop": ["x"] * 17}, "stop"),
        ({"stop": [""]}, "stop.0"),
    ],
)
def test_what_cannot_be_served_is_refused_by_name(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(TwofoldError) as refused:
        ask(**fields)
    assert isinstance(refused.value, (BadRequest, Unsupported))
    assert refused.value.data["field"] == field


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"prompt": []}, "prompt"),
        ({"prompt": ["a"] * 129}, "prompt"),
        ({"prompt": ["a"] * 65, "n": 2}, "n"),
        ({"suffix": "x"}, "suffix"),
        ({"best_of": 2}, "best_of"),
        ({"logit_bias": {"5": 1.0}}, "logit_bias"),
    ],
)
def test_completions_refuse_what_they_cannot_do(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(TwofoldError) as refused:
        complete(**fields)
    assert refused.value.data["field"] == field


def test_several_answers_are_as_many_commands_with_seeds_of_their_own() -> None:
    request = ChatRequest.model_validate({"messages": [USER], "n": 3, "seed": 2**32 - 2})
    commands = ask_commands(request, Settings(), "id")
    assert [command.sampling.seed for command in commands] == [2**32 - 2, 2**32 - 1, 0]
    assert [command.id for command in commands] == ["id", "id.1", "id.2"]
    assert {command.sampling.seed for command in complete_all(n=2)} == {None}


def test_each_of_several_prompts_gets_its_answers() -> None:
    commands = complete_all(prompt=["a", "b"], n=2, best_of=2)
    assert [command.prompt for command in commands] == ["a", "a", "b", "b"]
    assert [command.id for command in commands] == ["id", "id.1", "id.2", "id.3"]


def test_a_tool_that_has_to_be_called_is_named() -> None:
    tools = [{"type": "function", "function": {"name": name}} for name in ("look", "wait")]
    named = {"type": "function", "function": {"name": "wait"}}
    assert ask(tools=tools).must_call == ask(tools=tools, tool_choice="auto").must_call == ()
    assert ask(tools=tools, tool_choice="required").must_call == ("look", "wait")
    command = ask(tools=tools, tool_choice=named)
    assert command.must_call == ("wait",)
    assert len(command.tools) == 2, "the template tells of all"
    for choice in ({"type": "function", "function": {"name": "fly"}}, {"type": "allowed_tools"}):
        with pytest.raises(TwofoldError) as refused:
            ask(tools=tools, tool_choice=choice)
        assert refused.value.data["field"] == "tool_choice"

"""The routes over a scripted worker: OpenAI's shapes, streams, errors, settings."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from engine.api.openai import ChatCompletion, ChatCompletionChunk, Completion
from engine.server.routes import ENDPOINTS
from tests.support.fake_model import CHATML
from tests.unit.server.conftest import RunApp, Scripted

USER = {"role": "user", "content": "Hi"}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
Check = Callable[[httpx.AsyncClient], Awaitable[None]]


@pytest.fixture
def with_model(run_app: RunApp, scripted: Scripted) -> Callable[..., None]:
    """Runs a check against an application with a loaded model."""

    def run(check: Check, **script: Any) -> None:
        async def loaded() -> None:
            async with run_app() as client:
                request = scripted(**script)
                answer = await client.post("/twofold/load", json=request.model_dump(mode="json"))
                assert answer.status_code == 200, answer.text
                await check(client)

        asyncio.run(loaded())

    return run


WithModel = Callable[..., None]


async def chat(client: httpx.AsyncClient, **fields: Any) -> httpx.Response:
    return await client.post("/v1/chat/completions", json={"messages": [USER], **fields})


def events(response: httpx.Response) -> list[dict[str, Any]]:
    """A stream's events before its `[DONE]`."""
    assert response.headers["content-type"].startswith("text/event-stream")
    texts = [line[6:] for line in response.text.splitlines() if line.startswith("data: ")]
    assert texts[-1] == "[DONE]"
    return [json.loads(text) for text in texts[:-1]]


def test_an_answer_has_openais_shape_and_tells_how_it_came(with_model: WithModel) -> None:
    async def check(client: httpx.AsyncClient) -> None:
        answer = ChatCompletion.model_validate((await chat(client)).json())
        assert answer.model == "model"
        assert answer.choices[0].message.content == "Yes."
        assert answer.choices[0].finish_reason == "stop"
        assert answer.usage.completion_tokens == 4
        assert (answer.usage.path, answer.usage.reason) == ("odp", "scripted")
        assert answer.usage.reason_code == "test.scripted"
        assert answer.usage.bytes_read > 0
        assert answer.usage.ttft_s is not None

    with_model(check, answers=["Yes."])


def test_a_stream_has_openais_shape(with_model: WithModel) -> None:
    async def check(client: httpx.AsyncClient) -> None:
        chunks = [
            ChatCompletionChunk.model_validate(event)
            for event in events(
                await chat(client, stream=True, stream_options={"include_usage": True})
            )
        ]
        deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
        assert deltas[0].role == "assistant"
        assert "".join(delta.content or "" for delta in deltas) == "Yes."
        assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
        assert chunks[-1].usage is not None
        assert not chunks[-1].choices
        assert all(chunk.twofold is None for chunk in chunks)
        assert len({chunk.id for chunk in chunks}) == 1

    with_model(check, answers=["Yes."])


def test_a_turns_events_are_in_the_stream_if_asked_for(with_model: WithModel) -> None:
    async def check(client: httpx.AsyncClient) -> None:
        seen = events(await chat(client, stream=True, twofold={"events": True}))
        kinds = [event["twofold"]["type"] for event in seen if "twofold" in event]
        assert kinds[0] == "turn_started"
        assert "prefill_progress" in kinds
        assert kinds[-1] == "turn_report"

    with_model(check, answers=["Yes."])


def test_several_answers_come_with_their_numbers(with_model: WithModel) -> None:
    async def check(client: httpx.AsyncClient) -> None:
        answer = ChatCompletion.model_validate((await chat(client, n=2)).json())
        texts = [(choice.index, choice.message.content) for choice in answer.choices]
        assert texts == [(0, "Yes."), (1, "No!")]
        assert answer.usage.completion_tokens == 4 + 3
        assert answer.usage.total_tokens == answer.usage.prompt_tokens + 7
        assert (await client.get("/twofold/state")).json()["waiting"] == 0

    with_model(check, answers=["Yes.", "No!"])


def test_several_answers_stream_one_after_the_other(with_model: WithModel) -> None:
    async def check(client: httpx.AsyncClient) -> None:
        options = {"stream": True, "stream_options": {"include_usage": True}}
        chunks = events(await chat(client, n=3, **options))
        texts = ["", "", ""]
        ended: list[int] = []
        for choice in (choice for chunk in chunks for choice in chunk["choices"]):
            texts[choice["index"]] += choice["delta"].get("content") or ""
            if choice.get("finish_reason"):
                ended.append(choice["index"])
        assert texts == ["A", "B", "C"]
        assert ended == [0, 1, 2]
        assert len({chunk["id"] for chunk in chunks}) == 1
        assert [chunk["usage"]["completion_tokens"] for chunk in chunks if "usage" in chunk] == [3]

    with_model(check, answers=["A", "B", "C"])


def test_each_prompt_is_completed(with_model: WithModel) -> None:
    async def check(client: httpx.AsyncClient) -> None:
        body = {"prompt": ["Once", "Twice"], "echo": True}
        answer = Completion.model_validate((await client.post("/v1/completions", json=body)).json())
        assert [choice.text for choice in answer.choices] == ["Once upon", "Twice told"]
        assert answer.usage is not None
        assert answer.usage.prompt_tokens == len("Once") + len("Twice")
        streamed = events(await client.post("/v1/completions", json=body | {"stream": True}))
        texts = ["", ""]
        for choice in (choice for chunk in streamed for choice in chunk["choices"]):
            texts[choice["index"]] += choice["text"]
        assert texts == ["Once upon", "Twice told"]

    with_model(check, answers=[" upon", " told"] * 2)


def test_cancelling_a_request_ends_all_of_its_answers(with_model: WithModel) -> None:
    async def check(client: httpx.AsyncClient) -> None:
        asking = asyncio.create_task(chat(client, n=5))
        while not (running := (await client.get("/twofold/state")).json()["running"]):
            await asyncio.sleep(0.01)
        stopped = await client.post("/twofold/cancel", json={"id": running["id"]})
        assert stopped.json() == {"cancelled": 1}
        answer = ChatCompletion.model_validate((await asking).json())
        assert len(answer.choices) == 1

    with_model(check, endless=True, token_s=0.01, answers=["x" * 500])


def test_a_failure_on_the_way_ends_the_stream_of_several(with_model: WithModel) -> None:
    async def check(client: httpx.AsyncClient) -> None:
        chunks = events(await chat(client, n=3, stream=True))
        assert chunks[-1]["error"]["code"] == "worker.killed"
        indices = {choice["index"] for chunk in chunks for choice in chunk.get("choices", [])}
        assert indices == {0, 1}

    with_model(check, answers=["A", "B", "C"], die="SIGKILL", die_at_token=3)


def test_reasoning_is_kept_apart(with_model: WithModel) -> None:
    async def check(client: httpx.AsyncClient) -> None:
        message = (await chat(client)).json()["choices"][0]["message"]
        assert (message["reasoning_content"], message["content"]) == ("Hm.", "Yes.")
        deltas = [
            choice["delta"]
            for event in events(await chat(client, stream=True))
            for choice in event["choices"]
        ]
        assert "".join(delta.get("reasoning_content", "") for delta in deltas) == "Hm."
        assert "".join(delta.get("content", "") for delta in deltas) == "Yes."

    with_model(check, answers=["<think>Hm.</think>Yes."] * 2)


def test_tool_calls_are_parsed_in_both_forms_of_answer(with_model: WithModel) -> None:
    written = 'Wait.<tool_call>{"name": "look", "arguments": {"at": "sea"}}</tool_call>'

    async def check(client: httpx.AsyncClient) -> None:
        choice = (await chat(client, tools=[TOOL])).json()["choices"][0]
        assert choice["finish_reason"] == "tool_calls"
        assert choice["message"]["content"] == "Wait."
        function = choice["message"]["tool_calls"][0]["function"]
        assert function["name"] == "look"
        assert json.loads(function["arguments"]) == {"at": "sea"}
        streamed = events(await chat(client, tools=[TOOL], stream=True))
        calls = [
            call
            for event in streamed
            for choice in event["choices"]
            for call in choice["delta"].get("tool_calls", [])
        ]
        assert [(call["index"], call["function"]["name"]) for call in calls] == [(0, "look")]
        assert streamed[-1]["choices"][0]["finish_reason"] == "tool_calls"

    template = CHATML + "{% if tools %}<tool_call>{{ tools | tojson }}{% endif %}"
    with_model(check, answers=[written] * 2, template=template)


def test_tools_that_the_template_does_not_pass_on_are_refused(with_model: WithModel) -> None:
    async def check(client: httpx.AsyncClient) -> None:
        response = await chat(client, tools=[TOOL])
        assert response.status_code == 400
        assert response.json()["error"]["code"] == "chat.no_tools"

    with_model(check, answers=["Yes."])


def test_logprobs_belong_to_the_texts_tokens(with_model: WithModel) -> None:
    async def check(client: httpx.AsyncClient) -> None:
        choice = (await chat(client, logprobs=True, top_logprobs=2)).json()["choices"][0]
        tokens = choice["logprobs"]["content"]
        assert "".join(token["token"] for token in tokens) == "Yes."
        assert tokens[0]["bytes"] == [ord("Y")]
        assert tokens[0]["top_logprobs"][0]["token"] == "Y"
        assert len(tokens[0]["top_logprobs"]) == 2
        assert tokens[0]["logprob"] < 0
        streamed = events(await chat(client, logprobs=True, stream=True))
        told = [
            token["token"]
            for event in streamed
            for choice in event["choices"]
            for token in choice.get("logprobs", {}).get("content", [])
        ]
        assert "".join(told) == "Yes."

    with_model(check, answers=["<think>Hm.</think>Yes."] * 2)


def test_a_completion_goes_on_with_the_text_itself(with_model: WithModel) -> None:
    async def check(client: httpx.AsyncClient) -> None:
        body = {"prompt": "Once", "echo": True, "logprobs": 0, "max_tokens": 3}
        answer = Completion.model_validate((await client.post("/v1/completions", json=body)).json())
        assert answer.usage is not None
        assert answer.usage.prompt_tokens == 4, "no template around it"
        choice = answer.choices[0]
        assert (choice.text, choice.finish_reason) == ("Once up", "length")
        assert choice.logprobs is not None
        assert choice.logprobs.text_offset == [4, 5, 6]
        streamed = events(
            await client.post("/v1/completions", json={"prompt": "Once", "stream": True})
        )
        assert "".join(event["choices"][0]["text"] for event in streamed) == " upon <think>"

    with_model(check, answers=[" upon", " upon <think>"])


def test_an_answer_can_be_continued(with_model: WithModel) -> None:
    async def check(client: httpx.AsyncClient) -> None:
        begun = {"role": "assistant", "content": "It is a "}
        response = await client.post(
            "/v1/chat/completions",
            json={"messages": [USER, begun], "twofold": {"continue_last": True}},
        )
        answer = response.json()
        assert answer["choices"][0]["message"]["content"] == " lighthouse."
        refused = await chat(client, twofold={"continue_last": True})
        assert refused.json()["error"]["code"] == "chat.nothing_to_continue"

    with_model(check, answers=[" lighthouse."])


def test_a_death_is_an_event_of_the_stream(with_model: WithModel) -> None:
    async def check(client: httpx.AsyncClient) -> None:
        last = events(await chat(client, stream=True))[-1]
        assert last["error"]["code"] == "worker.killed"
        assert "Load the model again" in last["error"]["message"]
        after = await chat(client)
        assert after.status_code == 503
        assert after.json()["error"]["code"] == "worker.killed"
        assert after.headers["x-should-retry"] == "false"

    with_model(check, answers=["xxxxxxxx"], die="SIGKILL", die_at_token=4)


def test_a_full_queue_says_when_to_come_back(with_model: WithModel) -> None:
    async def check(client: httpx.AsyncClient) -> None:
        answers = await asyncio.gather(*(chat(client, max_tokens=20) for _ in range(8)))
        statuses = sorted(answer.status_code for answer in answers)
        assert statuses == [200] * 5 + [429] * 3
        refused = next(answer for answer in answers if answer.status_code == 429)
        assert int(refused.headers["retry-after"]) > 0

    with_model(check, endless=True, token_s=0.005)


def test_a_request_that_cannot_be_answered_has_a_status_even_as_a_stream(
    with_model: WithModel,
) -> None:
    async def check(client: httpx.AsyncClient) -> None:
        long = [{"role": "user", "content": "x" * 3000}]
        response = await client.post(
            "/v1/chat/completions", json={"messages": long, "stream": True}
        )
        assert response.status_code == 400
        assert response.json()["error"]["code"] == "chat.context_overflow"

    with_model(check, answers=[], context=500)


def test_another_models_name_is_refused_and_any_name_for_the_loaded_one_taken(
    with_model: WithModel,
) -> None:
    async def check(client: httpx.AsyncClient) -> None:
        for name in ("model", "default", ""):
            assert (await chat(client, model=name, max_tokens=1)).status_code == 200
        refused = await chat(client, model="gpt-4o")
        assert refused.status_code == 404
        assert refused.json()["error"]["code"] == "model_not_found"
        assert (await client.get("/v1/models")).json()["data"][0]["id"] == "model"

    with_model(check, endless=True)


def test_embeddings_are_refused_with_the_reason(with_model: WithModel) -> None:
    async def check(client: httpx.AsyncClient) -> None:
        response = await client.post("/v1/embeddings", json={"input": "x"})
        assert response.status_code == 400
        assert "gives no embeddings" in response.json()["error"]["message"]

    with_model(check)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'"\\ud800"', b"\xff\xfe", b"[" * 100_000, b"NaN"]
)
@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/completions", "/twofold/load", "/twofold/count"]
)
def test_a_body_that_is_no_request_is_a_400(run_app: RunApp, path: str, body: bytes) -> None:
    async def check() -> None:
        async with run_app() as client:
            response = await client.post(path, content=body)
            assert response.status_code == 400
            assert response.json()["error"]["code"] in ("request.invalid", "request.not_json")

    asyncio.run(check())


def test_settings_are_told_and_changed(run_app: RunApp, tmp_path: Path) -> None:
    async def check() -> None:
        async with run_app() as client:
            told = (await client.get("/twofold/settings")).json()["settings"]
            queue = next(setting for setting in told if setting["name"] == "server.queue")
            assert (queue["kind"], queue["minimum"], queue["source"]) == ("int", 0, "default")
            values = {"server.queue": 2, "server.port": 8080}
            changed = (await client.put("/twofold/settings", json={"values": values})).json()
            assert changed["restart"] == ["server.port"]
            assert "port = 8080" in (tmp_path / "settings.toml").read_text()
            bad = await client.put("/twofold/settings", json={"values": {"server.queue": -1}})
            assert bad.status_code == 400
            assert bad.json()["error"]["code"] == "settings.bad_value"
            assert "queue = 2" in (tmp_path / "settings.toml").read_text()

    asyncio.run(check())


def test_every_route_is_in_the_description(run_app: RunApp) -> None:
    async def check() -> None:
        async with run_app() as client:
            described = (await client.get("/openapi.json")).json()
        for endpoint in ENDPOINTS:
            operation = described["paths"][endpoint.path][endpoint.method.lower()]
            assert operation["summary"] == endpoint.summary
            assert ("requestBody" in operation) == (endpoint.body is not None)
        references = set(_references(described))
        assert references
        assert references <= {
            f"#/components/schemas/{name}" for name in described["components"]["schemas"]
        }

    asyncio.run(check())


def _references(part: Any) -> list[str]:
    if isinstance(part, dict):
        own = [part["$ref"]] if isinstance(part.get("$ref"), str) else []
        return own + [found for value in part.values() for found in _references(value)]
    if isinstance(part, list):
        return [found for value in part for found in _references(value)]
    return []


@pytest.mark.parametrize("lines", ["0", "-1", "x", "99999999999999999999", "²"])
def test_a_wrong_count_of_log_lines_is_refused(run_app: RunApp, lines: str) -> None:
    async def check() -> None:
        async with run_app() as client:
            response = await client.get("/twofold/logs", params={"lines": lines})
            assert response.status_code == 400

    asyncio.run(check())

"""OpenAI's own client, unmodified, against a real engine with a real model."""

from __future__ import annotations

import json
from collections.abc import Iterator

import openai
import pytest
from openai.types.chat import ChatCompletionMessageParam

from tests.support.running_server import RunningServer

pytestmark = pytest.mark.slow

QUESTION: list[ChatCompletionMessageParam] = [
    {"role": "user", "content": "Tell me about the city of Paris, the capital of France."},
]


@pytest.fixture(scope="module")
def client(demo: RunningServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{demo.url}/v1", api_key=demo.token, max_retries=0) as found:
        yield found


@pytest.fixture(scope="module")
def model(client: openai.OpenAI) -> str:
    [found] = client.models.list().data
    return found.id


def test_a_question_is_answered(client: openai.OpenAI, model: str) -> None:
    answer = client.chat.completions.create(
        model=model, messages=QUESTION, temperature=0, max_tokens=24
    )
    assert "Paris" in (answer.choices[0].message.content or "")
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert (answer.usage.model_extra or {})["path"] == "decoder"


def test_a_stream_gives_the_same_text(client: openai.OpenAI, model: str) -> None:
    whole = client.chat.completions.create(
        model=model, messages=QUESTION, temperature=0, max_tokens=24
    )
    stream = client.chat.completions.create(
        model=model, messages=QUESTION, temperature=0, max_tokens=24, stream=True,
        stream_options={"include_usage": True},
    )  # fmt: skip
    chunks = list(stream)
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert text == whole.choices[0].message.content
    usage = chunks[-1].usage
    assert usage is not None
    assert usage.prompt_tokens_details is not None
    assert usage.prompt_tokens_details.cached_tokens, "the prompt was in the cache"


def test_a_seed_repeats_an_answer_and_another_changes_it(client: openai.OpenAI, model: str) -> None:
    def text(seed: int) -> str | None:
        answer = client.chat.completions.create(
            model=model, messages=QUESTION, temperature=1.5, seed=seed, max_tokens=16
        )
        return answer.choices[0].message.content

    assert text(1) == text(1)
    assert len({text(seed) for seed in (1, 2, 3)}) > 1


def test_a_stop_string_ends_the_answer_before_it(client: openai.OpenAI, model: str) -> None:
    answer = client.chat.completions.create(
        model=model, messages=QUESTION, temperature=0, stop=["Paris"], max_tokens=24
    )
    assert answer.choices[0].finish_reason == "stop"
    assert "Paris" not in (answer.choices[0].message.content or "")


@pytest.mark.parametrize("temperature", [0.0, 1.2])
def test_a_schema_is_followed_to_the_letter(
    client: openai.OpenAI, model: str, temperature: float
) -> None:
    schema = {
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 12},
            "large": {"type": "boolean"},
            "kind": {"enum": ["capital", "town"]},
        },
        "required": ["city", "large", "kind"],
        "additionalProperties": False,
    }
    answer = client.chat.completions.create(
        model=model, messages=QUESTION, temperature=temperature, seed=3, max_tokens=100,
        response_format={"type": "json_schema", "json_schema": {"name": "c", "schema": schema}},
    )  # fmt: skip
    assert answer.choices[0].finish_reason == "stop"
    told = json.loads(answer.choices[0].message.content or "")
    assert set(told) == {"city", "large", "kind"}
    assert isinstance(told["large"], bool)
    assert told["kind"] in ("capital", "town")


def test_log_probabilities_are_those_of_the_text(client: openai.OpenAI, model: str) -> None:
    answer = client.chat.completions.create(
        model=model, messages=QUESTION, temperature=0, max_tokens=6, logprobs=True, top_logprobs=3
    )
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    text = b"".join(bytes(token.bytes or []) for token in logprobs.content).decode()
    assert text == answer.choices[0].message.content
    for token in logprobs.content:
        assert token.top_logprobs[0].logprob == token.logprob, "the likeliest was taken"
        assert len(token.top_logprobs) == 3
        assert -20 < token.logprob <= 0


def test_a_text_is_completed(client: openai.OpenAI, model: str) -> None:
    answer = client.completions.create(
        model=model, prompt="The capital of France is", temperature=0, max_tokens=4
    )
    assert "Paris" in answer.choices[0].text


def test_a_closed_stream_frees_the_model(client: openai.OpenAI, model: str) -> None:
    stream = client.chat.completions.create(
        model=model, messages=QUESTION, temperature=1, max_tokens=1500, stream=True
    )
    next(stream)
    stream.close()
    answer = client.chat.completions.create(model=model, messages=QUESTION, max_tokens=2)
    assert answer.choices[0].finish_reason == "length"


def test_errors_are_openais_own_with_our_code(client: openai.OpenAI, model: str) -> None:
    with pytest.raises(openai.BadRequestError) as long:
        client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": "word " * 4000}]
        )
    assert long.value.code == "chat.context_overflow"
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="gpt-4o", messages=QUESTION)
    with pytest.raises(openai.BadRequestError) as refused:
        client.embeddings.create(model=model, input="x")
    assert refused.value.code == "engine.no_embeddings"
    with (
        openai.OpenAI(base_url=client.base_url, api_key="wrong", max_retries=0) as stranger,
        pytest.raises(openai.AuthenticationError),
    ):
        stranger.models.list()

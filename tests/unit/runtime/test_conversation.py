"""A chat with a real model: turns reuse what is cached, and answer as if they had read it all."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.api.messages import Message
from engine.api.sampling import SamplingSettings
from engine.api.turn import PathSetting, TurnReport
from engine.chat.session import ChatSession
from engine.runtime.loaded_model import LoadedModel
from engine.runtime.settings import LoadSettings
from tests.support.sessions import MakePair, Pair

SETTINGS = LoadSettings(context=2048, micro_batch=512, threads=1)
GREEDY = SamplingSettings(temperature=0, max_tokens=24)
FIRST = Message(
    role="user",
    content="The lighthouse at Skerry has a red door and was built in 1841 by two brothers. "
    "What colour is its door? Answer with one word.",
)
SECOND = Message(role="user", content="In which year was the lighthouse built?")


def ask(session: ChatSession, messages: list[Message], path: PathSetting = "decoder") -> TurnReport:
    return session.ask(messages, GREEDY, path, lambda _event: None)


@pytest.fixture(scope="module")
def model(smol: Pair) -> Iterator[LoadedModel]:
    loaded = LoadedModel(smol.decoder, prefiller=smol.prefiller, settings=SETTINGS)
    yield loaded
    loaded.close()


@pytest.mark.slow
def test_a_second_turn_reads_only_what_is_new_and_answers_as_a_fresh_session(
    model: LoadedModel,
) -> None:
    model.keep(0)
    with ChatSession(model) as session:
        first = ask(session, [FIRST])
        assert first.cached_tokens == 0
        assert "red" in first.message.content.lower()
        conversation = [FIRST, first.message, SECOND]
        second = ask(session, conversation)
        assert second.cached_tokens >= first.prompt_tokens
        assert second.new_tokens < 40
        assert "1841" in second.message.content
    model.keep(0)
    with ChatSession(model) as fresh:
        whole = ask(fresh, conversation)
        assert whole.cached_tokens == 0
        assert whole.answer_tokens == second.answer_tokens


@pytest.mark.slow
def test_an_edited_turn_is_read_again_from_the_edit_on(model: LoadedModel) -> None:
    model.keep(0)
    edited = FIRST.model_copy(update={"content": FIRST.content.replace("What", "Tell me: what")})
    with ChatSession(model) as session:
        first = ask(session, [FIRST])
        ask(session, [FIRST, first.message, SECOND])
        again = ask(session, [edited])
        assert 20 < again.cached_tokens < first.prompt_tokens
        back = ask(session, [FIRST])
        assert back.answer_tokens == first.answer_tokens
    model.keep(0)
    with ChatSession(model) as fresh:
        assert ask(fresh, [edited]).answer_tokens == again.answer_tokens


@pytest.mark.slow
@pytest.mark.parametrize("path", ("resident", "odp"))
def test_the_prefiller_reads_the_first_turn_and_the_decoder_a_short_second(
    model: LoadedModel, path: PathSetting
) -> None:
    model.keep(0)
    with ChatSession(model) as session:
        first = ask(session, [FIRST], path)
        assert first.path == path
        assert "red" in first.message.content.lower()
        second = ask(session, [FIRST, first.message, SECOND], path)
        assert second.cached_tokens >= first.prompt_tokens
        assert second.path == "decoder" if second.new_tokens < 32 else path
        assert "1841" in second.message.content


@pytest.mark.parametrize("path", ("decoder", "odp"))
@pytest.mark.parametrize("arch", ("qwen35", "gemma3"))
def test_models_that_cannot_truncate_reuse_turns_through_checkpoints(
    pair_of: MakePair, arch: str, path: PathSetting
) -> None:
    pair = pair_of(arch)
    settings = SETTINGS.model_copy(update={"micro_batch": 128})
    model = LoadedModel(pair.decoder, prefiller=pair.prefiller, settings=settings)
    fresh_model = LoadedModel(pair.decoder, prefiller=pair.prefiller, settings=settings)
    with ChatSession(model) as session, ChatSession(fresh_model) as fresh:
        first = ask(session, [FIRST], path)
        # The answer's bytes need not tokenise again as they were sampled: the prompt is kept.
        conversation = [FIRST, Message(role="assistant", content="Red."), SECOND]
        second = ask(session, conversation, path)
        assert second.cached_tokens >= first.prompt_tokens - len("<|im_start|>assistant\n")
        third = ask(session, [FIRST], path)
        assert third.cached_tokens > 0
        assert third.answer_tokens == first.answer_tokens
        again = ask(session, conversation, path)
        assert again.answer_tokens == second.answer_tokens
        assert ask(fresh, [FIRST], path).answer_tokens == first.answer_tokens
        assert ask(fresh, conversation, path).answer_tokens == second.answer_tokens

"""A grammar bounds what a real model writes, from the next token on."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.api.sampling import SamplingSettings
from engine.errors import NativeError
from engine.runtime.loaded_model import LoadedModel
from engine.runtime.settings import LoadSettings
from tests.support.tiny_models import write_tiny

PROMPT = "Does the light burn?"


@pytest.fixture
def model(tmp_path: Path) -> LoadedModel:
    settings = LoadSettings(context=256, threads=1)
    return LoadedModel(write_tiny(tmp_path / "tiny.gguf", "llama"), settings=settings)


def write(model: LoadedModel, grammar: str | None, limit: int = 20, **sampling: float) -> str:
    """What the model writes until it ends or has `limit` tokens."""
    model.keep(0)
    tokens = model.tokenize(PROMPT, add_special=True, parse_special=True)
    model.prefill(tokens, path="decoder", on_progress=lambda _: None)
    model.start_sampling(SamplingSettings(seed=1, **sampling))  # type: ignore[arg-type]
    if grammar is not None:
        model.constrain(grammar)
    written = b""
    for _ in range(limit):
        token = model.next_token()
        if model.is_end_of_generation(token):
            break
        written += model.piece(token)
    return written.decode("utf-8", "replace")


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_only_what_the_grammar_allows_is_written_and_then_the_end(
    model: LoadedModel, temperature: float
) -> None:
    grammar = 'root ::= "yes" | "no" | "눈"'
    assert write(model, grammar, temperature=temperature) in ("yes", "no", "눈")


def test_a_grammar_is_gone_with_the_next_answer(model: LoadedModel) -> None:
    free = write(model, None, temperature=0.0)
    assert write(model, 'root ::= "no"', temperature=0.0) == "no"
    assert write(model, None, temperature=0.0) == free


@pytest.mark.parametrize("grammar", [" ", "root ::= (", 'other ::= "x"', 'root ::= root "x"'])
def test_a_grammar_that_is_none_is_refused_and_the_model_goes_on(
    model: LoadedModel, grammar: str
) -> None:
    with pytest.raises(NativeError) as refused:
        write(model, grammar)
    assert refused.value.code == "grammar.invalid"
    assert write(model, 'root ::= "no"') == "no"


def test_a_grammar_that_leads_nowhere_ends_the_answer_with_a_reason(tmp_path: Path) -> None:
    """The vocabulary has no word for it. The library alone would end the process here."""
    path = write_tiny(tmp_path / "test.gguf", "llama", vocab=100, tokenizer="test")
    model = LoadedModel(path, settings=LoadSettings(context=128, threads=1))
    model.prefill([1, 2, 3], path="decoder", on_progress=lambda _: None)
    model.start_sampling(SamplingSettings(seed=1))
    model.constrain('root ::= "yes"')
    with pytest.raises(NativeError) as ended:
        model.next_token()
    assert ended.value.code == "grammar.dead_end"

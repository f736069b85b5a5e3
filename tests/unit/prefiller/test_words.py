"""Every prefiller error has a sentence, made of the facts that the error carries."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from engine.prefiller import errors, words
from engine.prefiller.build import build_prefiller
from engine.words import sentence
from tests.support.gguf_bytes import u32
from tests.support.tiny_models import write_tiny

CODES = {
    kind.code
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, errors.PrefillerError) and kind is not errors.PrefillerError
}


def test_codes_and_sentences_are_the_same_set() -> None:
    assert set(words.SENTENCES) == CODES


def test_a_refusal_reads_as_a_sentence(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "d.gguf", "llama", extra={"llama.expert_count": u32(8)})
    with pytest.raises(errors.MixtureOfExperts) as refused:
        build_prefiller(path, tmp_path / "p.gguf")
    assert sentence(refused.value).startswith(f"{path} is a mixture of 8 experts.")

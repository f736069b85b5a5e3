"""A model that nobody vouches for is tried where its crash costs nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.gguf.errors import LibraryCrashed, LibraryRefused
from engine.gguf.rehearsal import last_words, rehearse
from engine.gguf.splits import open_model
from engine.words import sentence
from tests.support.gguf_bytes import text, u32
from tests.support.tiny_models import write_tiny


def test_a_good_model_passes(tmp_path: Path) -> None:
    rehearse(open_model(write_tiny(tmp_path / "m.gguf", "qwen3", blocks=1)))


def test_a_path_with_other_letters_passes(tmp_path: Path) -> None:
    rehearse(open_model(write_tiny(tmp_path / "modèle 模型.gguf", "llama", blocks=1)))


def test_a_model_that_aborts_the_library_is_reported(tmp_path: Path) -> None:
    path = write_tiny(
        tmp_path / "m.gguf", "llama", blocks=1, extra={"llama.rope.scaling.type": text("spiral")}
    )
    with pytest.raises(LibraryCrashed) as caught:
        rehearse(open_model(path))
    assert "GGML_ASSERT" in sentence(caught.value)


def test_a_model_that_the_library_refuses_is_reported(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "m.gguf", "llama", extra={"llama.block_count": u32(7)})
    with pytest.raises(LibraryRefused) as caught:
        rehearse(open_model(path))
    assert "blk.4" in sentence(caught.value)


def test_the_telling_line_is_found_among_others() -> None:
    log = b"loading\n....\nGGML_ASSERT(x) failed\nerror loading model\nbye\n"
    assert last_words(log) == "GGML_ASSERT(x) failed"
    assert last_words(b"one\ntwo\n...\n") == "two"
    assert last_words(b"") == ""

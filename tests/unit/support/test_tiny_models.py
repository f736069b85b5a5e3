"""The tiny models are worth testing with: they run, they listen, and they disagree."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.tiny_models import ARCHS, write_pair, write_tiny

library: Any = llama_cpp


@llama_cpp.llama_log_callback
def _quiet(level: int, text: bytes, user: int) -> None:
    del level, text, user


def answers(path: Path, prompt: list[int], length: int) -> tuple[list[int], NDArray[np.float32]]:
    """Greedy tokens after `prompt`, and the logits that the first was chosen from."""
    library.llama_log_set(_quiet, None)
    model = library.llama_model_load_from_file(
        str(path).encode(), library.llama_model_default_params()
    )
    settings = library.llama_context_default_params()
    settings.n_ctx, settings.n_threads, settings.n_threads_batch = 1024, 1, 1
    settings.n_batch = settings.n_ctx
    context = library.llama_init_from_model(model, settings)
    count = library.llama_vocab_n_tokens(library.llama_model_get_vocab(model))
    rows: list[NDArray[np.float32]] = []
    batch, tokens = prompt, list[int]()
    for _ in range(length):
        held = (ctypes.c_int32 * len(batch))(*batch)
        assert library.llama_decode(context, library.llama_batch_get_one(held, len(batch))) == 0
        pointer = library.llama_get_logits_ith(context, -1)
        rows.append(np.ctypeslib.as_array(pointer, (count,)).copy())
        tokens.append(int(rows[-1].argmax()))
        batch = tokens[-1:]
    library.llama_free(context)
    library.llama_model_free(model)
    return tokens, rows[0]


def prompt(seed: int, length: int = 700) -> list[int]:
    return np.random.default_rng(seed).integers(0, 256, length).tolist()


@pytest.mark.parametrize("arch", ARCHS)
def test_a_tiny_model_reads_a_long_prompt_and_answers_variedly(tmp_path: Path, arch: str) -> None:
    path = write_tiny(tmp_path / "m.gguf", arch)
    assert path.stat().st_size < 2 << 20
    tokens, logits = answers(path, prompt(1), 12)
    assert np.isfinite(logits).all()
    assert 1 < logits.std() < 10
    assert len(set(tokens)) > 6


@pytest.mark.parametrize("arch", ARCHS)
def test_an_early_token_of_the_prompt_reaches_the_answer(tmp_path: Path, arch: str) -> None:
    path = write_tiny(tmp_path / "m.gguf", arch)
    changed = prompt(1, 100)
    changed[3] ^= 1
    _, before = answers(path, prompt(1, 100), 1)
    _, after = answers(path, changed, 1)
    assert np.abs(before - after).max() > 1e-3


@pytest.mark.parametrize("arch", ARCHS)
def test_a_pair_disagrees_and_shares_all_but_the_blocks_linears(tmp_path: Path, arch: str) -> None:
    decoder, source = write_pair(tmp_path, arch)
    assert answers(decoder, prompt(1), 4)[0] != answers(source, prompt(1), 4)[0]


def test_the_same_arguments_write_the_same_bytes(tmp_path: Path) -> None:
    one = write_tiny(tmp_path / "1.gguf", "qwen35", seed=3)
    two = write_tiny(tmp_path / "2.gguf", "qwen35", seed=3)
    assert one.read_bytes() == two.read_bytes()
    assert write_tiny(tmp_path / "3.gguf", "qwen35", seed=4).read_bytes() != one.read_bytes()

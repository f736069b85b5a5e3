"""The prompt is read with the prefiller's weights and nothing else, the answer written with the
decoder's and nothing else.

Fluent text proves neither. Here a third model holds the prefiller's weights as its own, so that
what each phase computes can be compared with a model that has no other weights to use.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
import pytest

from engine.prefiller.formats import open_prefiller
from tests.support.prefiller_files import write_prefillers_model
from tests.support.sessions import (
    Logits,
    MakePair,
    Pair,
    attached,
    decode,
    distance,
    make_plan,
    open_session,
    prompt,
    read,
    same_bits,
)
from tests.support.tiny_models import ARCHS

library: Any = llama_cpp
# The library's graphs for these apply every scale, so an NVFP4 model of them runs as it should.
SCALED = ("llama", "qwen3", "qwen35")
PATHS = ("resident", "odp")


def prefillers_model(folder: Path, pair: Pair, *, exact: bool) -> Path:
    """P, P: a model whose own weights are the prefiller's."""
    prefiller = open_prefiller(pair.prefiller)
    return write_prefillers_model(folder / "pp.gguf", pair.decoder, prefiller, exact=exact)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("arch", SCALED)
def test_a_prompt_is_read_as_by_a_model_that_is_the_prefiller(
    pair_of: MakePair, tmp_path: Path, arch: str, path: str
) -> None:
    pair, tokens = pair_of(arch), prompt(700)
    theirs = open_session(prefillers_model(tmp_path, pair, exact=True))
    wanted = read(theirs, tokens, with_prefiller=False)
    session = attached(pair, make_plan(path))
    assert same_bits(read(session, tokens, with_prefiller=True), wanted)
    assert distance(read(session, tokens, with_prefiller=False), wanted) > 1


@pytest.mark.parametrize("arch", sorted(set(ARCHS) - set(SCALED)))
def test_scales_that_the_library_leaves_out_are_applied_all_the_same(
    pair_of: MakePair, tmp_path: Path, arch: str
) -> None:
    pair, tokens = pair_of(arch), prompt(40)
    theirs = open_session(prefillers_model(tmp_path, pair, exact=False))
    session = attached(pair)
    wanted = read(theirs, tokens, with_prefiller=False)
    with_prefiller = read(session, tokens, with_prefiller=True)
    without = read(session, tokens, with_prefiller=False)
    # Activations are rounded to 8 bits where weights are NVFP4, and not where they are FP32.
    assert np.corrcoef(with_prefiller, wanted)[0, 1] > 0.98
    assert np.corrcoef(without, wanted)[0, 1] < 0.7


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("arch", ARCHS)
def test_the_answer_is_neither_the_decoders_own_nor_the_prefillers_own(
    pair_of: MakePair, tmp_path: Path, arch: str, path: str
) -> None:
    pair, tokens = pair_of(arch), prompt(200)
    session = attached(pair, make_plan(path))
    theirs = open_session(prefillers_model(tmp_path, pair, exact=arch in SCALED))
    answers: list[list[int]] = []
    for reader, with_prefiller in ((session, True), (session, False), (theirs, False)):
        read(reader, tokens, with_prefiller=with_prefiller)
        answers.append(decode(reader, 12)[0])
    mixed, decoders_own, prefillers_own = answers
    assert mixed != decoders_own
    assert mixed != prefillers_own


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("arch", SCALED)
def test_the_answer_is_written_as_by_the_plain_decoder_from_the_prefillers_state(
    pair_of: MakePair, tmp_path: Path, arch: str, path: str
) -> None:
    """The library alone: P reads, its state moves to D's context, D writes."""
    pair, tokens = pair_of(arch), prompt(300)
    session = attached(pair, make_plan(path))
    read(session, tokens, with_prefiller=True)
    answer, logits = decode(session, 8)

    reading = prefillers_model(tmp_path, pair, exact=True)
    expected, expected_logits = read_here_write_there(reading, pair.decoder, tokens, 8)
    assert answer == expected
    assert same_bits(logits, expected_logits)


@pytest.mark.slow
def test_with_a_real_model_all_three_differ(smol: Pair, tmp_path: Path) -> None:
    session = attached(smol)
    text = "Twofold reads a prompt with one set of weights and writes with another. " * 4
    tokens = session.tokenize(text, True, True)
    theirs = open_session(prefillers_model(tmp_path, smol, exact=True))
    wanted = read(theirs, tokens, with_prefiller=False)
    found: list[Logits] = []
    for reader, with_prefiller in ((session, True), (session, False), (theirs, False)):
        first = read(reader, tokens, with_prefiller=with_prefiller)
        if with_prefiller:
            assert same_bits(first, wanted)
        reader.feed(tokens[0])
        found.append(reader.logits())
    mixed, decoders_own, prefillers_own = found
    assert distance(mixed, decoders_own) > 1e-3
    assert distance(mixed, prefillers_own) > 1e-3
    assert distance(decoders_own, prefillers_own) > 1e-3


def read_here_write_there(
    reader: Path, writer: Path, tokens: list[int], count: int
) -> tuple[list[int], Logits]:
    """Greedy tokens of the library alone, and the logits that the last was chosen from."""
    model, context = _open(reader)
    logits = _decode(model, context, tokens)
    size = library.llama_state_seq_get_size(context, 0)
    state = (ctypes.c_uint8 * size)()
    assert library.llama_state_seq_get_data(context, state, size, 0) == size
    _close(model, context)

    model, context = _open(writer)
    assert library.llama_state_seq_set_data(context, state, size, 0) == size
    answer = [int(logits.argmax())]
    while len(answer) < count:
        logits = _decode(model, context, answer[-1:])
        answer.append(int(logits.argmax()))
    _close(model, context)
    return answer, logits


def _open(path: Path) -> tuple[Any, Any]:
    model = library.llama_model_load_from_file(
        str(path).encode(), library.llama_model_default_params()
    )
    settings = library.llama_context_default_params()
    settings.n_ctx = settings.n_batch = settings.n_ubatch = 1024
    settings.n_threads = settings.n_threads_batch = 1
    return model, library.llama_init_from_model(model, settings)


def _decode(model: Any, context: Any, tokens: list[int]) -> Logits:
    held = (ctypes.c_int32 * len(tokens))(*tokens)
    assert library.llama_decode(context, library.llama_batch_get_one(held, len(tokens))) == 0
    count = library.llama_vocab_n_tokens(library.llama_model_get_vocab(model))
    values = library.llama_get_logits_ith(context, -1)
    return np.ctypeslib.as_array(values, (count,)).copy()


def _close(model: Any, context: Any) -> None:
    library.llama_free(context)
    library.llama_model_free(model)

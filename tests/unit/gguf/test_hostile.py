"""No file crashes, hangs or bloats the engine: fuzzing of the validator and the library.

What the validator accepts is run by the library in child processes, which must survive.
"""

from __future__ import annotations

import resource
import time
import tracemalloc
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import TwofoldError
from engine.gguf.validate import is_checked, validated_model
from engine.words import sentence
from tests.support.gguf_bytes import GgufBytes, Tensor, Value
from tests.support.gguf_mutations import mutated, spoiled
from tests.support.library_load import load_all
from tests.support.tiny_models import ARCHS, tiny_model

HEADER = 9000  # bytes of the corpus models' headers, about
SECONDS = 1.0
MEMORY = 8 << 20


@cache
def corpus() -> tuple[GgufBytes, ...]:
    blocks = {"gemma3": 6, "qwen35": 4}
    models = [tiny_model(a, blocks=blocks.get(a, 2), width=64, ffn=64) for a in ARCHS]
    models.append(tiny_model("llama", blocks=1, width=64, ffn=64, tokenizer="llama"))
    models.append(tiny_model("qwen3", blocks=1, width=64, ffn=64, vocab=40))
    return tuple(models)


@cache
def contents() -> tuple[bytes, ...]:
    return tuple(model.encode() for model in corpus())


def mutant(seed: int) -> bytes:
    random = Random(seed)
    place = random.randrange(len(corpus()))
    if random.random() < 0.25:
        return spoiled(contents()[place], random, HEADER)
    return mutated(corpus()[place], random, random.choice((1, 1, 1, 2, 3))).encode()


def accepted(path: Path) -> bool:
    """Whether the library may have the file; refusing must be a sentence, quick and small."""
    tracemalloc.start()
    started = time.process_time()
    try:
        return is_checked(validated_model(path))
    except TwofoldError as error:
        assert sentence(error).startswith(str(path))
        return False
    finally:
        assert time.process_time() - started < SECONDS
        assert tracemalloc.get_traced_memory()[1] < MEMORY
        tracemalloc.stop()


def check_mutants(folder: Path, seeds: range) -> int:
    """Run what is accepted of `seeds`' mutants in the library; how many that were."""
    passed: list[Path] = []
    for seed in seeds:
        path = folder / f"{seed}.gguf"
        path.write_bytes(mutant(seed))
        if accepted(path):
            passed.append(path)
        else:
            path.unlink()
    outcomes = load_all(passed)
    bad = [one for one in outcomes if one.outcome not in ("ran", "refused")]
    assert not bad, bad
    ran = [one for one in outcomes if one.outcome == "ran"]
    assert len(ran) > 0.9 * len(passed)  # the validator leaves the library little to refuse
    return len(passed)


def test_what_is_accepted_survives_the_library(tmp_path: Path) -> None:
    assert check_mutants(tmp_path, range(160)) > 25


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(8))
def test_a_large_corpus_survives_the_library(tmp_path: Path, batch: int) -> None:
    start = 10_000 + batch * 400
    assert check_mutants(tmp_path, range(start, start + 400)) > 70


def test_every_truncation_is_answered(tmp_path: Path) -> None:
    content = contents()[0]
    path = tmp_path / "short.gguf"
    lengths = [*range(0, 400, 7), *range(400, len(content), 4999)]
    for length in lengths:
        path.write_bytes(content[:length])
        assert not accepted(path)


def test_flipped_bits_are_answered(tmp_path: Path) -> None:
    random = Random(0)
    path = tmp_path / "flipped.gguf"
    for content in contents():
        for _ in range(60):
            out = bytearray(content)
            out[random.randrange(HEADER)] ^= 1 << random.randrange(8)
            path.write_bytes(out)
            accepted(path)


numbers = st.one_of(
    st.integers(0, 300), st.sampled_from([1 << 31, 1 << 40, 1 << 63, (1 << 64) - 1])
)
names = st.one_of(
    st.text(max_size=8),
    st.binary(max_size=8),
    st.sampled_from(["general.alignment", "general.architecture", "split.count", "llama.x"]),
)


def sizes(limit: int) -> st.SearchStrategy[int | None]:
    return st.one_of(st.none(), st.none(), numbers, st.integers(0, limit))


@st.composite
def values(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Value:
    scalars: dict[int, st.SearchStrategy[Any]] = {
        0: st.integers(0, 255),
        4: st.integers(0, (1 << 32) - 1),
        5: st.integers(-(1 << 31), (1 << 31) - 1),
        6: st.floats(width=32),
        7: st.booleans(),
        8: st.one_of(st.text(max_size=12), st.binary(max_size=12)),
        10: st.integers(0, (1 << 64) - 1),
        12: st.floats(),
    }
    type_ = draw(st.sampled_from(sorted(scalars)))
    if draw(st.booleans()):
        return Value(type_, draw(scalars[type_]))
    items = draw(st.lists(scalars[type_], max_size=6))
    return Value(9, items, type_, draw(sizes(6)))


@st.composite
def files(draw: Callable[[st.SearchStrategy[Any]], Any]) -> bytes:
    tensors = draw(
        st.lists(
            st.builds(
                Tensor,
                name=names,
                shape=st.lists(numbers, max_size=5).map(tuple),
                type=st.integers(0, 50),
                data=st.binary(max_size=64),
                offset=sizes(512),
                n_dims=sizes(6).map(lambda n: None if n is None else n % (1 << 32)),
            ),
            max_size=4,
        )
    )
    made = GgufBytes(
        draw(st.lists(st.tuples(names, values()), max_size=5)),
        tensors,
        version=draw(st.sampled_from([3, 3, 3, 2, 1, 0])),
        alignment=draw(st.sampled_from([1, 32, 64])),
        n_tensors=draw(sizes(5)),
        n_metadata=draw(sizes(6)),
    )
    return made.encode()


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(content=files())
def test_any_structured_file_is_answered(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "made.gguf"
    path.write_bytes(content)
    accepted(path)


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(content=st.binary(max_size=400))
def test_any_bytes_are_answered(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "made.gguf"
    path.write_bytes(b"GGUF\3\0\0\0" + content)
    accepted(path)


def test_refusing_does_not_grow_the_process(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    path = tmp_path / "made.gguf"
    for seed in range(100):
        path.write_bytes(spoiled(contents()[0], Random(seed), HEADER))
        accepted(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB

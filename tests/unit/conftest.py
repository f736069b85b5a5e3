"""Models that tests share, made once per worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine import paths
from engine.prefiller.build import build_prefiller
from tests.support.sessions import MakePair, Pair, make_pair, pairs_in


@pytest.fixture(scope="session")
def pair_of(tmp_path_factory: pytest.TempPathFactory) -> MakePair:
    """A tiny decoder of an architecture and a prefiller from other weights; not to be changed."""
    return pairs_in(tmp_path_factory)


@pytest.fixture
def own_pair(tmp_path: Path) -> Pair:
    """A pair for one test alone, to be damaged."""
    return make_pair(tmp_path, "llama")


@pytest.fixture(scope="session")
def smol(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """The demo model with a prefiller built from itself."""
    decoder = paths.demo_model()
    assert decoder.exists(), f"the demo model is not at {decoder}; ./twofold test fetches it"
    prefiller = tmp_path_factory.mktemp("smol") / "prefiller.gguf"
    build_prefiller(decoder, prefiller)
    return Pair(decoder, decoder, prefiller)

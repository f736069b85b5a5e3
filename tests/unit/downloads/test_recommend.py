"""What is recommended to a machine: the best that fits and writes faster than people read."""

from __future__ import annotations

import pytest

from engine.api.hardware import Host, Profile, Rates
from engine.downloads.browse import Browser
from engine.downloads.catalog import Catalog, CatalogDecoder, catalog
from engine.downloads.errors import HubFailed
from engine.downloads.recommend import recommend
from tests.support.downloading import Downloading
from tests.support.hub import LocalHub
from tests.support.tiny_models import tiny_model

LARGE, SMALL, PREFILLER = "them/Large-GGUF", "them/Small-GGUF", "them/Large-prefiller"
TINY = tiny_model("llama", blocks=1, context=512).encode()
BIG = tiny_model("llama", blocks=4, width=512, ffn=2048, weight_type="F16", context=512).encode()

KNOWN = Catalog.model_validate(
    {
        "first_choices": [
            {"repo": "gone/Away-GGUF", "label": "Q8_0"},
            {"repo": LARGE, "label": "F16"},
            {"repo": SMALL, "label": "Q8_0"},
        ],
        "pairs": [
            {
                "decoder": {"repo": LARGE, "label": "F16"},
                "prefiller": {"repo": PREFILLER, "folder": "F16"},
                "parts": 1,
                "licence": "mit",
                "gib": 1.0,
                "scores": {"MMLU-Pro": [29.0, 61.5]},
            }
        ],
    }
)


def browser(downloading: Downloading, memory: int, gbps: float = 50.0) -> Browser:
    profile = Profile(
        host=Host(memory_total=memory, memory_free=memory), rates=Rates(host_gbps=gbps)
    )
    return Browser(downloading.hub, lambda: profile, downloading.library.entries, KNOWN)


@pytest.fixture(autouse=True)
def repos(hub: LocalHub) -> None:
    hub.add(LARGE, {"Large-UD-F16.gguf": BIG}, licence="mit")
    hub.add(SMALL, {"Small-Q8_0.gguf": TINY})


def test_the_best_that_fits_is_recommended_with_its_prefiller(downloading: Downloading) -> None:
    found = recommend(browser(downloading, 16 << 30), KNOWN.first_choices)
    assert found is not None
    assert (found.pull, found.name, found.licence) == (f"{LARGE}:UD-F16", "Large", "mit")
    assert found.prefiller is not None and found.prefiller.scores == {"MMLU-Pro": (29.0, 61.5)}
    assert found.bytes == len(BIG) + (1 << 30)


def test_one_that_writes_too_slowly_gives_way_to_the_next(downloading: Downloading) -> None:
    slow = len(BIG) * 2 / 1e9  # some two tokens a second
    found = recommend(browser(downloading, 16 << 30, slow), KNOWN.first_choices)
    assert found is not None and found.pull == f"{SMALL}:Q8_0"
    assert found.prefiller is None and found.bytes == found.variant.bytes


def test_where_all_are_slow_the_fastest_is_taken_and_where_none_fits_none(
    downloading: Downloading,
) -> None:
    crawling = recommend(browser(downloading, 16 << 30, 1e-6), KNOWN.first_choices)
    assert crawling is not None and crawling.pull == f"{SMALL}:Q8_0"
    assert recommend(browser(downloading, 1 << 20), KNOWN.first_choices) is None


def test_a_hub_that_fails_is_no_machine_too_small(hub: LocalHub, downloading: Downloading) -> None:
    hub.api_status = [(500, {})] * 50
    with pytest.raises(HubFailed):
        recommend(browser(downloading, 16 << 30), KNOWN.first_choices)


def test_the_catalogue_has_choices_for_large_and_small_machines() -> None:
    choices = catalog().first_choices
    assert choices[-1] == CatalogDecoder(repo="Qwen/Qwen3-0.6B-GGUF", label="Q8_0")
    paired = [one for one in choices if catalog().prefillers_for(one.repo, one.label)]
    assert len(paired) == len(catalog().pairs)

"""What a person sees of the hub: variants with their fit, prefillers, what to expect."""

from __future__ import annotations

import pytest

from engine.api.hardware import Host, Profile
from engine.api.models import VariantFile
from engine.downloads.browse import Browser
from engine.downloads.catalog import Catalog, Pair, catalog
from engine.downloads.errors import BadReference, NoVariant, VariantIncomplete, VariantNeeded
from engine.downloads.reference import Reference, parse_reference
from engine.downloads.variants import choose, sort_files
from tests.support.downloading import Downloading
from tests.support.hub import LocalHub
from tests.support.tiny_models import tiny_model

REPO = "somebody/Tiny-GGUF"
TINY = tiny_model("llama", blocks=1, context=512).encode()


def profile(gib: float = 12) -> Profile:
    return Profile(host=Host(memory_total=16 << 30, memory_free=int(gib * (1 << 30))))


def browser(downloading: Downloading, gib: float = 12, known: Catalog | None = None) -> Browser:
    return Browser(downloading.hub, lambda: profile(gib), downloading.library.entries, known)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("user/repo", Reference("user/repo")),
        ("user/repo:Q4_K_M", Reference("user/repo", None, "Q4_K_M")),
        (" https://huggingface.co/user/repo ", Reference("user/repo")),
        ("https://huggingface.co/user/repo/tree/main", Reference("user/repo", "main")),
        (
            "https://hf.co/user/repo/blob/main/UD-Q2_K_XL/m-00001-of-00002.gguf",
            Reference("user/repo", "main", "UD-Q2_K_XL/m-00001-of-00002.gguf"),
        ),
        (
            "https://huggingface.co/user/repo/resolve/abc/m%20x.gguf?download=true",
            Reference("user/repo", "abc", "m x.gguf"),
        ),
        ("huggingface.co/user/repo", Reference("user/repo")),
        ("hf.co/user/repo:Q8_0", Reference("user/repo", None, "Q8_0")),
        ("hf://user/repo", Reference("user/repo")),
    ],
)
def test_what_people_paste_is_understood(text: str, expected: Reference) -> None:
    assert parse_reference(text) == expected


@pytest.mark.parametrize(
    "text",
    ["llama", "llama 3 instruct", "https://example.org/user/repo", "user/../repo", "a/b:", "/", ""],
)
def test_what_names_no_repo_is_no_reference(text: str) -> None:
    with pytest.raises(BadReference):
        parse_reference(text)


def test_a_repo_on_a_mirror_is_understood(hub: LocalHub, downloading: Downloading) -> None:
    hub.add(REPO, {"Tiny-Q8_0.gguf": TINY})
    found = browser(downloading).search(f"{hub.url}/{REPO}")
    assert found.listing is not None and found.listing.repo == REPO


def files(*names: str) -> list[VariantFile]:
    return [VariantFile(path=name, bytes=100, sha256="0" * 64) for name in names]


def test_parts_projectors_and_prefillers_are_sorted() -> None:
    found = sort_files(
        "u/Model-GGUF",
        files(
            "M-Q4_K_M.gguf",
            "UD-Q2_K_XL/M-UD-Q2_K_XL-00002-of-00002.gguf",
            "UD-Q2_K_XL/M-UD-Q2_K_XL-00001-of-00002.gguf",
            "BF16/M-BF16-00001-of-00003.gguf",
            "mmproj-F16.gguf",
            "imatrix.gguf",
            "README.md",
        ),
    )
    kinds = {one.name: (one.kind, one.label, one.complete) for one in found.variants}
    assert kinds == {
        "M-Q4_K_M": ("decoder", "Q4_K_M", True),
        "UD-Q2_K_XL/M-UD-Q2_K_XL": ("decoder", "UD-Q2_K_XL", True),
        "BF16/M-BF16": ("decoder", "BF16", False),
        "mmproj-F16": ("projector", "F16", True),
    }
    split = next(one for one in found.variants if one.label == "UD-Q2_K_XL")
    assert [file.path[-19:] for file in split.files] == [
        "-00001-of-00002.gguf"[-19:],
        "-00002-of-00002.gguf"[-19:],
    ]


def test_a_published_prefillers_folders_are_told_apart_by_the_decoders_quantisation() -> None:
    names = [
        f"{label}/Qwen-NVFP4-prefiller-0000{no}-of-00002.gguf"
        for label in ("IQ1_S", "IQ1_M")
        for no in (1, 2)
    ]
    variants = sort_files("x/Qwen-NVFP4-prefiller", files(*names)).variants
    assert {one.label for one in variants} == {"IQ1_S", "IQ1_M"}
    assert choose("r", variants, "IQ1_S").files[0].path.startswith("IQ1_S/")
    assert choose("r", variants, "IQ1_M").kind == "prefiller"


def test_the_wanted_variant_is_chosen_and_others_are_listed() -> None:
    variants = sort_files(
        "u/r", files("m-Q4_0.gguf", "m-UD-Q2_K_XL.gguf", "m-Q8_0-00001-of-00002.gguf")
    ).variants
    assert choose("u/r", variants, "q4_0").label == "Q4_0"
    assert choose("u/r", variants, "Q2_K_XL").label == "UD-Q2_K_XL"
    assert choose("u/r", variants, "m-Q4_0.gguf").label == "Q4_0"
    with pytest.raises(VariantNeeded, match="Q4_0"):
        choose("u/r", variants, None)
    with pytest.raises(NoVariant, match="Q4_0"):
        choose("u/r", variants, "Q6_K")
    with pytest.raises(VariantIncomplete):
        choose("u/r", variants, "Q8_0")


def test_fits_follow_the_machine_and_the_best_that_fits_is_recommended(
    hub: LocalHub, downloading: Downloading
) -> None:
    hub.add(REPO, {"Tiny-Q4_K_M.gguf": TINY, "Tiny-Q8_0.gguf": TINY + bytes(1000)})
    hub.extra_tree[REPO] = [
        {"type": "file", "path": "Tiny-BF16.gguf", "size": 80 << 30, "oid": "0" * 40,
         "lfs": {"oid": "0" * 64, "size": 80 << 30, "pointerSize": 1}}
    ]  # fmt: skip
    listing = browser(downloading).show(REPO)
    fits = {one.label: one.fit.verdict if one.fit else None for one in listing.variants}
    assert fits == {"Q4_K_M": "fits", "Q8_0": "fits", "BF16": "too_large"}
    assert [one.label for one in listing.variants if one.recommended] == ["Q4_K_M"]
    small = browser(downloading, gib=0.2).show(REPO)
    assert all(one.fit and one.fit.verdict == "too_large" for one in small.variants)
    assert not any(one.recommended for one in small.variants)


def test_the_catalogue_knows_the_published_pairs_and_what_they_bring() -> None:
    known = catalog()
    assert {pair.decoder.label for pair in known.pairs} == {"IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_S"}
    (pair,) = known.prefillers_for("unsloth/Qwen3.8-27B-GGUF", "UD-IQ1_S")
    assert pair.reference == "ISTA-DASLab/Qwen3.8-27B-NVFP4-prefiller:IQ1_S"
    assert "29.04 -> 61.54" in pair.expect
    assert known.prefillers_for("unsloth/Qwen3.8-27B-GGUF", "Q4_K_M") == []
    assert known.prefillers_for(None, "IQ1_S") == []


def pairs() -> Catalog:
    return Catalog(
        pairs=(
            Pair.model_validate(
                {
                    "decoder": {"repo": REPO, "label": "Q8_0"},
                    "prefiller": {"repo": "x/Tiny-prefiller", "folder": "Q8_0"},
                    "parts": 1,
                    "licence": "mit",
                }
            ),
        )
    )


def test_a_repos_decoders_show_their_published_prefillers_or_what_building_one_brings(
    hub: LocalHub, downloading: Downloading
) -> None:
    hub.add(REPO, {"Tiny-Q8_0.gguf": TINY, "Tiny-Q4_0.gguf": TINY})
    found = browser(downloading, known=pairs())
    listing = found.show(REPO)
    (offer,) = listing.prefillers["Tiny-Q8_0"]
    assert (offer.way, offer.repo, offer.variant) == ("published", "x/Tiny-prefiller", "Q8_0")
    (offer,) = found.show(f"{REPO}:Q4_0").prefillers["Tiny-Q4_0"]
    assert offer.way == "build" and offer.bytes and "helps less" in offer.expect


def test_an_installed_decoder_is_offered_what_the_hub_has_and_a_build(
    hub: LocalHub, downloading: Downloading
) -> None:
    hub.add(REPO, {"Tiny-Q4_0.gguf": TINY})
    hub.add("x/Tiny-NVFP4-prefiller", {})
    hub.add("x/Tiny-prefiller", {})  # for another decoder, by the catalogue
    assert downloading.pull(REPO).state == "done"
    entry = downloading.library.find(f"{REPO}:Q4_0")
    offers = browser(downloading, known=pairs()).offers(entry)
    assert [(one.way, one.repo) for one in offers] == [
        ("found", "x/Tiny-NVFP4-prefiller"),
        ("build", None),
    ]
    listing = browser(downloading).show(REPO)
    assert listing.variants[0].installed
    shown = browser(downloading, known=pairs()).show(f"{REPO}:Q4_0").prefillers["Tiny-Q4_0"]
    assert [(one.way, one.repo) for one in shown] == [
        ("found", "x/Tiny-NVFP4-prefiller"),
        ("build", None),
    ]


def test_an_installed_model_that_the_hub_has_replaced_is_told(
    hub: LocalHub, downloading: Downloading
) -> None:
    hub.add(REPO, {"Tiny-Q4_0.gguf": TINY})
    assert downloading.pull(REPO).state == "done"
    (before,) = browser(downloading).show(REPO).variants
    hub.add(REPO, {"Tiny-Q4_0.gguf": TINY + bytes(32)})
    (after,) = browser(downloading).show(REPO).variants
    assert [(one.installed, one.outdated) for one in (before, after)] == [
        (True, False),
        (True, True),
    ]


@pytest.mark.parametrize(
    ("name", "offered"),
    [
        ("Tiny-UD-Q8_0.gguf", ("published", "x/Tiny-prefiller")),
        ("tiny-chat.Q4_0.gguf", ("found", "x/Tiny-Chat-prefiller")),
    ],
)
def test_a_file_from_elsewhere_finds_prefillers_by_its_name(
    hub: LocalHub, downloading: Downloading, name: str, offered: tuple[str, str]
) -> None:
    hub.add("x/Tiny-Chat-prefiller", {})
    (downloading.main / name).write_bytes(TINY)
    (entry,) = (one for one in downloading.library.entries() if one.origin.way != "demo")
    first = browser(downloading, known=pairs()).offers(entry)[0]
    assert (first.way, first.repo) == offered
    assert "checked when it is here" in first.expect


def test_a_gated_repos_models_are_judged_by_their_size(
    hub: LocalHub, downloading: Downloading
) -> None:
    hub.add(REPO, {"Tiny-Q8_0.gguf": TINY}, gated=True)
    listing = browser(downloading).show(REPO)
    assert listing.failure is not None and listing.failure.code == "hub.gated"
    fit = listing.variants[0].fit
    assert fit is not None and (fit.verdict, fit.estimated) == ("fits", True)

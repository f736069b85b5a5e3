"""Repos made to do harm: nothing leaves its folder, nothing that lies becomes usable."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.api.hardware import Host, Profile
from engine.api.models import VariantFile
from engine.downloads.browse import Browser
from engine.downloads.errors import UnsafeName
from engine.downloads.ordering import order
from engine.downloads.safe_names import is_safe_path
from engine.downloads.variants import sort_files
from tests.support.downloading import Downloading
from tests.support.gguf_bytes import GgufBytes
from tests.support.hub import LocalHub
from tests.support.tiny_models import tiny_model

REPO = "somebody/Model-GGUF"
TRICKS = [
    "../../evil-Q4_0.gguf",
    "/etc/evil-Q4_0.gguf",
    "a/../../evil-Q4_0.gguf",
    "..\\..\\evil-Q4_0.gguf",
    "C:\\evil-Q4_0.gguf",
    "C:evil-Q4_0.gguf",
    "a//evil-Q4_0.gguf",
    "./evil-Q4_0.gguf",
    ".ssh/evil-Q4_0.gguf",
    ".incoming/evil-Q4_0.gguf",
    "evil\0-Q4_0.gguf",
    "evil\n-Q4_0.gguf",
    "evil\u202egguf.exe-Q4_0.gguf",
    "CON.gguf",
    "a/NUL/evil-Q4_0.gguf",
    "a./evil-Q4_0.gguf",
    "a /evil-Q4_0.gguf",
    "evil-Q4_0.gguf:stream.gguf",
    "x" * 300 + ".gguf",
    "/".join(["deep"] * 50) + "/evil.gguf",
]


@pytest.mark.parametrize("name", TRICKS, ids=ascii)
def test_a_name_that_leads_elsewhere_is_refused(name: str) -> None:
    assert not is_safe_path(name)
    found = sort_files(REPO, [VariantFile(path=name, bytes=1, sha256="0" * 64)])
    assert (found.variants, found.refused) == ((), (name,))


@pytest.mark.parametrize("name", ["m.gguf", "UD-Q4_K_XL/m-00001-of-00002.gguf", "模型-Q4_0.gguf"])
def test_honest_names_are_taken(name: str) -> None:
    assert is_safe_path(name)


def test_a_repo_of_tricks_is_refused_with_a_warning(
    hub: LocalHub, downloading: Downloading, tmp_path: Path
) -> None:
    hub.add(REPO, {})
    hub.extra_tree[REPO] = [
        {"type": "file", "path": name, "size": 3, "oid": "0" * 40,
         "lfs": {"oid": "0" * 64, "size": 3, "pointerSize": 1}}
        for name in TRICKS
    ]  # fmt: skip
    with pytest.raises(UnsafeName):
        order(downloading.hub, REPO)
    assert not list(tmp_path.rglob("*evil*"))


def test_names_that_some_systems_cannot_tell_apart_are_refused() -> None:
    files = [VariantFile(path=name, bytes=1, sha256=None) for name in ("M.gguf", "m.gguf")]
    assert sort_files(REPO, files).variants == ()


def test_a_hash_that_is_none_is_not_accepted(hub: LocalHub, downloading: Downloading) -> None:
    hub.add(REPO, {"m-Q4_0.gguf": b"x"}, lfs=False)
    with pytest.raises(Exception, match="no_hash"):
        order(downloading.hub, REPO)


def profile() -> Profile:
    return Profile(host=Host(memory_total=16 << 30, memory_free=12 << 30))


@pytest.fixture
def browser(downloading: Downloading) -> Browser:
    return Browser(downloading.hub, profile, downloading.library.entries)


def test_a_repo_of_very_many_models_is_shown_in_part_and_each_can_be_named(
    hub: LocalHub, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.downloads.browse.MOST_VARIANTS", 20)
    hub.add(REPO, {f"m{no:03}-Q4_0.gguf": b"x" * no for no in range(100)})
    listing = browser.show(REPO)
    assert (len(listing.variants), listing.more) == (20, 80)
    (one,) = browser.show(f"{REPO}:m099-Q4_0").variants
    assert one.name == "m099-Q4_0" and one.fit is not None


def lying() -> bytes:
    """A header that claims more tensors than the file could hold."""
    model = tiny_model("llama", blocks=1)
    return GgufBytes(model.metadata, model.tensors, n_tensors=60_000).encode()


def test_a_gguf_that_lies_about_itself_costs_only_its_estimate(
    hub: LocalHub, browser: Browser
) -> None:
    hub.add(REPO, {"m-Q4_0.gguf": lying()})
    listing = browser.show(REPO)
    (variant,) = listing.variants
    assert variant.fit is not None and variant.fit.verdict == "unknown"
    assert listing.failure is not None and listing.failure.code.startswith("gguf.")
    assert not variant.recommended


def test_a_downloaded_gguf_that_lies_is_shown_as_damaged(
    hub: LocalHub, downloading: Downloading
) -> None:
    hub.add(REPO, {"m-Q4_0.gguf": lying()})
    assert downloading.pull(REPO).state == "done"
    (entry,) = (one for one in downloading.library.entries() if one.origin.way != "demo")
    assert entry.state == "damaged"


def test_a_header_is_read_without_the_file(hub: LocalHub, browser: Browser) -> None:
    data = tiny_model("llama", blocks=4, width=512, ffn=2048).encode()
    assert len(data) > 4 << 20
    hub.add(REPO, {"m-Q8_0.gguf": data})
    (variant,) = browser.show(f"{REPO}:Q8_0").variants
    assert variant.fit is not None
    assert (variant.fit.verdict, variant.fit.estimated) == ("fits", False)
    asked = [headers["range"] for _, path, headers in hub.requests if "/resolve/" in path]
    assert asked == ["bytes=0-1048575"]


def test_a_server_that_sends_more_than_was_asked_for_is_cut_off(
    hub: LocalHub, browser: Browser
) -> None:
    data = tiny_model("llama", blocks=4, width=512, ffn=2048).encode()
    hub.add(REPO, {"m-Q8_0.gguf": data})
    hub.fail("m-Q8_0.gguf", ignore_range=True, extra=b"x" * 1000)
    assert browser.show(REPO).failure is None

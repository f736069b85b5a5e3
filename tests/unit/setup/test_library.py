"""The library that is installed is the pinned one, built for this CPU, and seen to run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from setup import library
from setup.compiler import Compiler
from setup.context import Context
from setup.words import SetupError

GCC = Compiler("/usr/bin/gcc", "/usr/bin/g++", "GCC", "12.2.0")
CLANG = Compiler("/usr/bin/clang", "/usr/bin/clang++", "clang", "16.0.6")
PINS = {"version": "0.3.36", "commit": "0c1e57098", "sdist_sha256": "8" * 64}
DEAD = {"healthy": False, "reason": "SIGILL", "kernel": "Q4_0 AMX 5", "detail": ""}


def test_gcc_builds_without_the_passes_that_break_amx_and_clang_gets_no_unknown_flags() -> None:
    assert {recipe.cxxflags for recipe in library.recipes(PINS, GCC)} == {"-fno-tree-dse -fno-dse"}
    assert {recipe.cxxflags for recipe in library.recipes(PINS, CLANG)} == {""}


def test_whatever_changes_a_build_changes_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [recipe.key for recipe in library.recipes(PINS, GCC)]
    keys += [recipe.key for recipe in library.recipes(PINS, CLANG)]
    keys += [recipe.key for recipe in library.recipes({**PINS, "version": "0.3.37"}, GCC)]
    newer = Compiler(GCC.c, GCC.cxx, "GCC", "13.1.0")
    keys += [recipe.key for recipe in library.recipes(PINS, newer)]
    monkeypatch.setattr(library, "cpu_features", lambda: {"avx2"})
    keys += [recipe.key for recipe in library.recipes(PINS, GCC)]
    assert len(set(keys)) == 10


def test_the_safe_build_uses_only_what_the_cpu_has_and_never_amx(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(library, "cpu_features", lambda: {"avx", "avx2", "fma", "amx_int8"})
    _, safe = library.recipes(PINS, GCC)
    arguments = safe.cmake_args.split()
    assert "-DGGML_NATIVE=OFF" in arguments
    switched_on = {part for part in arguments if part.endswith("=ON")}
    assert switched_on == {"-DGGML_AVX=ON", "-DGGML_AVX2=ON", "-DGGML_FMA=ON"}


@pytest.fixture
def builds(context: Context, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replaces the long parts; holds the names of the recipes that were built."""
    built: list[str] = []

    def build(_: Context, recipe: library.Recipe, __: Compiler, folder: Path) -> Path:
        built.append(recipe.name)
        folder.mkdir(parents=True)
        wheel = folder / "library.whl"
        wheel.touch()
        return wheel

    monkeypatch.setattr(library, "fetch_sources", lambda _: None)
    monkeypatch.setattr(library, "_build", build)
    monkeypatch.setattr(context, "run", lambda *_, **__: "")
    return built


def verdicts(monkeypatch: pytest.MonkeyPatch, *given: dict[str, Any]) -> Iterator[dict[str, Any]]:
    left = iter(given)
    monkeypatch.setattr(library, "_self_check", lambda _: next(left))
    return left


def test_a_healthy_build_is_checked_once_and_used_again_without_building(
    context: Context, builds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    left = verdicts(monkeypatch, {"healthy": True})
    library.make(context, GCC)
    library.make(context, GCC)
    assert builds == ["native"]
    assert next(left, None) is None
    assert context.done("library")["name"] == "native"


def test_a_build_that_dies_is_replaced_by_the_safe_one_and_never_used_again(
    context: Context, builds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    verdicts(monkeypatch, DEAD, {"healthy": True})
    library.make(context, GCC)
    library.make(context, GCC)
    assert builds == ["native", "without AMX"]
    assert context.done("library")["name"] == "without AMX"


def test_if_the_safe_build_dies_too_the_set_up_refuses(
    context: Context, builds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    verdicts(monkeypatch, DEAD, DEAD)
    with pytest.raises(SetupError, match=r"\(SIGILL in Q4_0 AMX 5\)"):
        library.make(context, GCC)
    assert builds == ["native", "without AMX"]
    assert context.done("library") is None


def test_an_interrupted_self_check_is_made_again(
    context: Context, builds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: Context) -> dict[str, Any]:
        raise KeyboardInterrupt

    monkeypatch.setattr(library, "_self_check", interrupted)
    with pytest.raises(KeyboardInterrupt):
        library.make(context, GCC)
    assert context.done("library") is None
    verdicts(monkeypatch, {"healthy": True})
    library.make(context, GCC)
    assert builds == ["native"]


def test_another_cpu_makes_the_installed_library_stale(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.sources(context).mkdir(parents=True)
    context.record("library", library.wanted(context) | {"name": "native", "compiler": "GCC 12"})
    assert library.ready(context)
    monkeypatch.setattr(library, "cpu_features", lambda: {"sse4_2"})
    assert not library.ready(context)


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place where pip may look for packages."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def test_a_package_of_another_hash_is_thrown_away(
    context: Context, shelf: Path, tmp_path: Path
) -> None:
    (shelf / "tiny-1.0-py3-none-any.whl").write_bytes(b"not what was pinned")
    target = tmp_path / "target"
    target.mkdir()
    with pytest.raises(SetupError) as caught:
        library.download(context, "tiny==1.0", hashlib.sha256(b"pinned").hexdigest(), target)
    assert caught.value.code == "hash.mismatch"
    assert not list(target.glob("*.whl"))


@pytest.mark.usefixtures("shelf")
def test_a_package_that_the_index_lacks_is_named(context: Context, tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"does not have tiny==1\.0") as caught:
        library.download(context, "tiny==1.0", "0" * 64, tmp_path)
    assert caught.value.code == "package.not_found"


def test_sources_are_unpacked_without_histories_and_appear_whole(
    context: Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import tarfile

    top = tmp_path / "llama_cpp_python-0.3.36"
    (top / ".git").mkdir(parents=True)
    (top / ".git" / "HEAD").write_text("a history", encoding="utf-8")
    (top / "vendor").mkdir()
    (top / "vendor" / "llama.h").write_text("a header", encoding="utf-8")
    packed = tmp_path / "sdist.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(top, top.name)

    def download(_: Context, __: str, ___: str, folder: Path, *____: str) -> Path:
        return Path(packed.replace(folder / "sdist.tar.gz"))

    monkeypatch.setattr(library, "download", download)
    library.fetch_sources(context)
    found = library.sources(context)
    assert (found / "vendor" / "llama.h").read_text(encoding="utf-8") == "a header"
    assert not (found / ".git").exists()
    assert list(found.parent.iterdir()) == [found]


def test_the_recipe_kept_beside_a_wheel_can_be_read(context: Context) -> None:
    recipe, _ = library.recipes(context.pins("llama"), GCC)
    assert json.loads(json.dumps(recipe.__dict__))["compiler"] == "GCC 12.2.0"

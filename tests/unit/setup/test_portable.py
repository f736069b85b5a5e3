"""The package's library: what decides its build, and that no path of this machine gets in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from setup import portable
from setup.compiler import Compiler
from setup.context import Context

GCC = Compiler("gcc", "g++", "GCC", "12.2.0")
CLANG = Compiler("clang", "clang++", "clang", "16.0")
ROOT = Path(__file__).parents[3]


def test_gccs_builds_keep_the_amx_tile_configuration(tmp_path: Path) -> None:
    context = Context(ROOT, tmp_path)
    pins = context.pins("llama")
    assert "-fno-tree-dse -fno-dse" in portable.recipe(pins, GCC).flags
    assert portable.recipe(pins, CLANG).flags == ""


def test_the_same_inputs_share_a_build_and_others_do_not(tmp_path: Path) -> None:
    pins = Context(ROOT, tmp_path).pins("llama")
    made = portable.recipe(pins, GCC)
    assert made.key == portable.recipe(pins, GCC).key
    changed = (
        replace(made, version="0"), replace(made, flags=""), replace(made, variants=("sse42",)),
    )  # fmt: skip
    assert made.key not in {one.key for one in changed}


def test_a_build_that_is_there_is_taken(tmp_path: Path) -> None:
    context = Context(ROOT, tmp_path)
    (tmp_path / "sources").mkdir()
    portable.library.sources(context).mkdir()
    folder = tmp_path / "portable" / portable.recipe(context.pins("llama"), GCC).key
    folder.mkdir(parents=True)
    (folder / "recipe.json").write_text("{}")
    assert portable.make(context, GCC) == folder / "lib"


def test_source_paths_are_told_without_the_folder_they_lie_in(tmp_path: Path) -> None:
    context = Context(ROOT, tmp_path)
    environ = portable.build_environ(context, portable.recipe(context.pins("llama"), GCC))
    assert f"-ffile-prefix-map={tmp_path}" in environ["CXXFLAGS"]
    assert environ["CXXFLAGS"] == environ["CFLAGS"]

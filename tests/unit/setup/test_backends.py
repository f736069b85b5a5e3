"""A backend is built once by version and flags, goes on where it stopped, and says what it is."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from engine.backends.stamp import read_stamp
from setup import backends, vulkan_headers
from setup.compiler import Compiler, find_compiler
from setup.context import Context
from setup.words import SetupError
from tests.unit.setup.conftest import executable

GCC = Compiler("/usr/bin/gcc", "/usr/bin/g++", "GCC", "12.2.0")


@pytest.fixture
def calls(context: Context, tmp_path: Path) -> Path:
    """In place of CMake: notes its calls, and 'builds' a small library into the build folder."""
    library = tmp_path / "library.so"
    source = tmp_path / "library.c"
    source.write_text("int answer(void) { return 42; }\n", encoding="utf-8")
    subprocess.run([find_compiler().c, "-shared", "-o", library, source], check=True)
    noted = tmp_path / "calls"
    executable(
        context.venv / "bin" / "cmake",
        f'echo "$@" >> "{noted}"',
        '[ "$1" = --build ] || exit 0',
        f'[ ! -e "{tmp_path}/fails" ] || exit 1',
        'mkdir -p "$2/bin"',
        f'cp "{library}" "$2/bin/lib$(echo "$@" | sed "s/.*--target //").so"',
    )
    return noted


def builds(calls: Path) -> int:
    return calls.read_text(encoding="utf-8").count("--build")


def test_a_backend_is_built_once_and_found_again(context: Context, calls: Path) -> None:
    assert backends.built(context, "rpc") is None
    made = backends.make(context, GCC, "rpc")
    assert backends.make(context, GCC, "rpc") == made
    assert builds(calls) == 1
    assert backends.built(context, "rpc") == made
    assert {path.name for path in made.parent.iterdir()} == {made.name, "recipe.json", "lock"}


def test_it_carries_what_it_was_built_for(context: Context, calls: Path) -> None:
    assert not calls.exists()
    facts = read_stamp(backends.make(context, GCC, "rpc"))
    pins = context.pins("llama")
    assert (facts.backend, facts.version, facts.commit) == ("rpc", pins["version"], pins["commit"])


def test_the_package_can_carry_it_it_is_for_any_processor_and_names_no_folder(
    context: Context, calls: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"-DVulkan_INCLUDE_DIR={context.cache}/include"
    needs = backends.Needs(options=["-DOPTION=1"], places=[place], tools="glslc 1")
    monkeypatch.setattr(backends, "_needs", lambda *_: needs)
    made = backends.make(context, GCC, "vulkan")
    configured = calls.read_text(encoding="utf-8").splitlines()[0]
    for argument in ("-DGGML_NATIVE=OFF", "-DOPTION=1", place):
        assert argument in configured
    assert str(context.cache).encode() not in made.read_bytes(), "the stamp names a folder"
    moved = backends.Needs(options=["-DOPTION=1"], places=["-DElsewhere"], tools="glslc 1")
    monkeypatch.setattr(backends, "_needs", lambda *_: moved)
    assert backends.make(context, GCC, "vulkan") == made, "where things lie makes no other build"


def test_another_compiler_is_another_build_but_the_old_one_is_not_stale(
    context: Context, calls: Path
) -> None:
    first = backends.make(context, GCC, "rpc")
    second = backends.make(context, Compiler(GCC.c, GCC.cxx, "GCC", "13.1.0"), "rpc")
    assert first != second
    assert builds(calls) == 2
    shutil.rmtree(second.parent)
    assert backends.built(context, "rpc") == first


def test_a_backend_of_another_version_is_not_taken(context: Context, calls: Path) -> None:
    assert not calls.exists()
    made = backends.make(context, GCC, "rpc")
    facts = json.loads((made.parent / "recipe.json").read_text(encoding="utf-8"))
    (made.parent / "recipe.json").write_text(
        json.dumps(facts | {"sdist_sha256": "0" * 64}), encoding="utf-8"
    )
    assert backends.built(context, "rpc") is None


def test_a_failed_build_goes_on_where_it_stopped(
    context: Context, calls: Path, tmp_path: Path
) -> None:
    (tmp_path / "fails").touch()
    with pytest.raises(SetupError, match="Building the rpc backend failed"):
        backends.make(context, GCC, "rpc")
    (place,) = (context.cache / "backends" / "rpc").iterdir()
    halfway = place / "build" / "object.o"
    halfway.touch()
    (tmp_path / "fails").unlink()
    executable(
        context.venv / "bin" / "ls-halfway", f'[ -e "{halfway}" ] && touch "{tmp_path}/kept"'
    )
    script = context.venv / "bin" / "cmake"
    script.write_text(script.read_text(encoding="utf-8") + "ls-halfway\n", encoding="utf-8")
    backends.make(context, GCC, "rpc")
    assert (tmp_path / "kept").exists()
    assert builds(calls) == 2


def test_cuda_without_its_compiler_says_what_to_install(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(SetupError, match="install the CUDA toolkit"):
        backends.make(context, GCC, "cuda")


def test_vulkan_without_the_shader_compiler_says_what_to_install(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(SetupError, match="glslc"):
        backends.make(context, GCC, "vulkan")


@pytest.mark.parametrize(
    ("minor", "patch", "enough"), [(3, 239, False), (3, 272, True), (4, 309, True), (4, 9, True)]
)
def test_headers_are_judged_by_their_version(
    minor: int, patch: int, enough: bool, tmp_path: Path
) -> None:
    (tmp_path / "vulkan").mkdir()
    (tmp_path / "vulkan" / "vulkan_core.h").write_text(
        f"#define VK_HEADER_VERSION {patch}\n"
        f"#define VK_HEADER_VERSION_COMPLETE VK_MAKE_API_VERSION(0, 1, {minor}, VK_HEADER_VERSION)",
        encoding="utf-8",
    )
    assert vulkan_headers.new_enough([tmp_path]) is enough


def test_no_headers_are_not_new_enough(tmp_path: Path) -> None:
    assert not vulkan_headers.new_enough([tmp_path])

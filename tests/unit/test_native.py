"""The native extension loads with the pinned library, and with no other."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest

from engine import native as module
from engine.errors import NativeError
from engine.native import LibraryMissing, LibraryWrongVersion, native, pinned_version
from engine.words import sentence

load = native.__wrapped__  # not the one that was loaded before


def test_it_wants_the_version_that_the_package_pins() -> None:
    assert pinned_version() == importlib.metadata.version("llama-cpp-python")
    assert load() is native()


@pytest.mark.parametrize("found", ("0.3.35", "0.3.37", "0.3.36.post1"))
def test_another_version_is_refused_with_both_numbers(
    monkeypatch: pytest.MonkeyPatch, found: str
) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda _name: found)
    with pytest.raises(LibraryWrongVersion) as caught:
        load()
    assert caught.value.data == {"found": found, "wanted": pinned_version()}
    assert found in sentence(caught.value)
    assert pinned_version() in sentence(caught.value)


def test_a_library_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(module, "library_folder", lambda: tmp_path)
    with pytest.raises(LibraryMissing) as caught:
        load()
    assert caught.value.data["wanted"] == pinned_version()


def test_the_library_behind_the_right_number_must_be_the_right_build() -> None:
    """The extension asks the library itself, whatever the package's metadata claims."""
    commit = native().library_commit()
    assert re.match(r"[0-9a-f]{7,40}", commit)
    native().require_pinned_library()


def test_importing_the_bindings_afterwards_opens_no_second_copy() -> None:
    """Two copies would have two registries of devices, and two answers to every question."""
    script = (
        "from pathlib import Path\n"
        "from engine.native import native\n"
        "native()\n"
        "import llama_cpp\n"
        "lines = Path('/proc/self/maps').read_text().splitlines()\n"
        "found = {line.split()[-1] for line in lines if 'llama_cpp/lib/lib' in line}\n"
        "names = sorted(path.split('/')[-1].split('.so')[0] for path in found)\n"
        "assert len(names) == len(set(names)), sorted(found)\n"
        "assert 'libllama' in names and 'libggml-cpu' in names\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_native_errors_arrive_with_their_facts() -> None:
    params = native().ModelParams()
    params.paths = ["/nowhere/at/all.gguf"]
    with pytest.raises(NativeError) as caught:
        native().Session(params, native().ContextParams())
    assert caught.value.code == "model.load_failed"
    assert caught.value.data["path"] == "/nowhere/at/all.gguf"
    assert "/nowhere/at/all.gguf" in sentence(caught.value)

"""Bringing in, taking out and moving: whole or not at all, and never a surprise."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.api.models import ImportWay, ModelEntry, Origin
from engine.gguf.errors import NotGguf
from engine.library import changes, copying
from engine.library.errors import (
    Damaged,
    FolderUnusable,
    NameTaken,
    NoRoom,
    NotAModel,
    NothingToCompare,
    Stopped,
)
from engine.library.library import Folders, Library
from engine.library.verify import verify
from engine.prefiller.build import build_prefiller
from tests.support.projectors import projector
from tests.support.split_models import write_split
from tests.support.tiny_models import tiny_model, write_tiny

MakeLibrary = Callable[..., Library]


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    return folder


def entry_at(library: Library, path: Path) -> ModelEntry:
    return next(one for one in library.entries() if one.path == path)


def files_below(folder: Path) -> list[str]:
    return sorted(
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()
    )


@pytest.mark.parametrize("way", ["copy", "move", "reference"])
def test_a_split_model_is_brought_in_whole(
    library: Library, main: Path, outside: Path, way: ImportWay
) -> None:
    parts = write_split(outside, tiny_model("llama", blocks=2), 3)
    contents = [part.read_bytes() for part in parts]
    path = changes.bring_in(library, parts[1], way)
    entry = entry_at(library, path)
    assert (entry.state, entry.origin.way, len(entry.files)) == ("ready", way, 3)
    assert [file.path.read_bytes() for file in entry.files] == contents
    assert [part.exists() for part in parts] == [way != "move"] * 3
    hashes = [hashlib.sha256(content).hexdigest() for content in contents]
    assert [file.sha256 for file in entry.files] == (hashes if way == "copy" else [None] * 3)
    assert path.is_relative_to(main) == (way != "reference")


@pytest.mark.parametrize("way", ["copy", "move", "reference"])
def test_a_projector_comes_with_the_only_model_of_its_folder(
    library: Library, outside: Path, way: ImportWay
) -> None:
    model = write_tiny(outside / "Tiny-Q8_0.gguf", "llama", blocks=1, width=128)
    (outside / "mmproj-F16.gguf").write_bytes(projector(128))
    (outside / "mmproj-other.gguf").write_bytes(projector(4096))
    path = changes.bring_in(library, outside, way)
    attached = entry_at(library, path).projectors
    assert [(one.path.name, one.fits) for one in attached] == [("mmproj-F16.gguf", True)]
    assert attached[0].path.parent == path.parent
    assert model.exists() == (way != "move")
    assert (outside / "mmproj-other.gguf").exists()


def test_a_projector_beside_several_models_stays_where_it_is(
    library: Library, outside: Path
) -> None:
    model = write_tiny(outside / "a.gguf", "llama", blocks=1, width=128)
    write_tiny(outside / "b.gguf", "llama", blocks=1, width=128)
    (outside / "mmproj-F16.gguf").write_bytes(projector(128))
    with pytest.raises(NotAModel):
        changes.bring_in(library, outside, "move")
    changes.bring_in(library, model, "move")
    assert files_below(outside) == ["b.gguf", "mmproj-F16.gguf"]


def test_what_is_no_model_is_refused_and_nothing_changes(
    library: Library, main: Path, outside: Path
) -> None:
    (outside / "a.gguf").write_bytes(b"no model at all")
    with pytest.raises(Exception) as caught:  # the file's own failure, from the cache of facts
        changes.bring_in(library, outside / "a.gguf", "move")
    assert getattr(caught.value, "code", "") == NotGguf.code
    with pytest.raises(NotAModel):
        changes.bring_in(library, main, "copy")
    parts = write_split(outside, tiny_model("llama", blocks=1), 2)
    parts[0].unlink()
    with pytest.raises(NotAModel):
        changes.bring_in(library, parts[1], "copy")
    assert files_below(main) == []


def test_a_stopped_or_failed_import_leaves_both_sides_as_they_were(
    library: Library, main: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = write_split(outside, tiny_model("llama", blocks=2), 3)
    before = {part.name: part.read_bytes() for part in parts}
    stop = threading.Event()

    def stopping(done: int, total: int) -> None:
        if done > total // 2:
            stop.set()

    with pytest.raises(Stopped):
        changes.bring_in(library, parts[0], "copy", stopping, stop)
    stop.clear()
    with pytest.raises(Stopped):
        changes.bring_in(library, parts[0], "move", stopping, stop)
    monkeypatch.setattr(copying, "MARGIN", 1 << 60)
    with pytest.raises(NoRoom):
        changes.bring_in(library, parts[0], "copy")
    assert files_below(main) == []
    assert {path.name: path.read_bytes() for path in outside.iterdir()} == before


def test_a_copy_onto_a_full_disk_says_so_and_leaves_nothing(
    library: Library, main: Path, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = write_tiny(outside / "a.gguf", "llama", blocks=1)

    def full(*_: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(copying, "_copy", full)
    with pytest.raises(NoRoom):
        changes.bring_in(library, model, "copy")
    assert files_below(main) == []


def test_an_import_overwrites_nothing_and_copies_nothing_twice(
    library: Library, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = write_tiny(outside / "a.gguf", "llama", blocks=1)
    path = changes.bring_in(library, model, "copy")
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(copying, "copied", pytest.fail)
        assert changes.bring_in(library, model, "copy") == path
    write_tiny(model, "llama", blocks=2)
    for way in ("copy", "move"):
        with pytest.raises(NameTaken):
            changes.bring_in(library, model, way)
    assert path.read_bytes() == before
    assert entry_at(library, path).files[0].sha256 == hashlib.sha256(before).hexdigest()


DYING = """
import os, sys
from pathlib import Path
from engine.library import changes, copying
from engine.library.database import Database
from engine.library.library import Folders, Library
library = Library(Database(Path(sys.argv[1])), lambda: Folders(Path(sys.argv[2])))
changes.bring_in(library, Path(sys.argv[3]), sys.argv[4], lambda done, total: os._exit(9))
"""


@pytest.mark.parametrize("way", ["copy", "move"])
def test_an_import_that_was_killed_goes_on(
    make_library: MakeLibrary, main: Path, tmp_path: Path, outside: Path, way: ImportWay
) -> None:
    parts = write_split(outside, tiny_model("llama", blocks=2), 3)
    contents = [part.read_bytes() for part in parts]
    command = [sys.executable, "-c", DYING, str(tmp_path / "models.sqlite"), str(main)]
    for _ in range(2):  # each dies on the way
        died = subprocess.run([*command, str(parts[0]), way], check=False, cwd=Path.cwd())
        assert died.returncode == 9
    path = changes.bring_in(library := make_library(), parts[0], way)
    entry = entry_at(library, path)
    assert (entry.state, entry.origin.way) == ("ready", way)
    assert [file.path.read_bytes() for file in entry.files] == contents
    assert sorted(outside.iterdir()) == ([] if way == "move" else parts)
    assert len(files_below(main)) == 3


def test_a_referenced_model_whose_file_went_stays_until_it_is_removed(
    library: Library, outside: Path
) -> None:
    model = write_tiny(outside / "a.gguf", "llama", blocks=1)
    changes.bring_in(library, model, "reference")
    assert entry_at(library, model).context is not None
    model.unlink()
    entry = entry_at(library, model)
    assert entry.state == "offline"
    what = changes.removal(library, entry, library.entries())
    assert (what.goes, what.stays) == ((), (model,))
    changes.take_out(library, what)
    assert all(one.path != model for one in library.entries())


def test_removing_a_reference_leaves_the_file(library: Library, outside: Path) -> None:
    model = write_tiny(outside / "a.gguf", "llama", blocks=1)
    changes.bring_in(library, model, "reference")
    entry = entry_at(library, model)
    changes.take_out(library, changes.removal(library, entry, library.entries()))
    assert model.exists()
    assert all(one.path != model for one in library.entries())


def test_a_removal_lists_what_goes_what_is_shared_and_what_is_left_behind(
    library: Library, main: Path
) -> None:
    folder = main / "repo"
    folder.mkdir()
    first = write_tiny(folder / "Tiny-Q8_0.gguf", "llama", blocks=1)
    second = write_tiny(folder / "Tiny-Q4_0.gguf", "llama", blocks=1, weight_type="Q4_0")
    eye = folder / "mmproj-F16.gguf"
    eye.write_bytes(projector(128))
    prefiller = build_prefiller(first, folder / "Tiny-Q8_0.prefiller.gguf").path
    entry = entry_at(library, first)
    what = changes.removal(library, entry, library.entries())
    assert what.goes == (first,)
    assert what.stays == (eye,)
    assert what.shared == {str(eye): ("Tiny-Q4_0",)}
    assert what.left_behind == (str(prefiller),)
    assert what.bytes == first.stat().st_size
    assert first.exists(), "only listed"
    changes.take_out(library, what)
    last = entry_at(library, second)
    what = changes.removal(library, last, library.entries())
    assert set(what.goes) == {second, eye}, "the last decoder takes its projector along"


def test_an_export_copies_every_file(library: Library, main: Path, outside: Path) -> None:
    parts = write_split(main, tiny_model("llama", blocks=2), 3)
    done = changes.copy_out(entry_at(library, parts[0]), outside / "to" / "here")
    contents = [part.read_bytes() for part in parts]
    assert [path.read_bytes() for path in done] == contents
    done[0].unlink()  # as if killed before it
    assert changes.copy_out(entry_at(library, parts[0]), outside / "to" / "here") == done
    assert [path.read_bytes() for path in done] == contents
    done[0].write_bytes(b"the user's own")
    done[1].unlink()
    with pytest.raises(NameTaken):
        changes.copy_out(entry_at(library, parts[0]), outside / "to" / "here")
    assert done[0].read_bytes() == b"the user's own"
    assert len(files_below(outside)) == 2, "what was there before stays, and no more"


def test_the_library_moves_with_all_that_is_known_of_its_files(
    make_library: MakeLibrary, tmp_path: Path, main: Path
) -> None:
    folders = Folders(main)
    library = make_library()
    library._folders = lambda: folders  # pyright: ignore[reportPrivateUsage]
    model = write_tiny(main / "a" / "x.gguf" if (main / "a").mkdir() is None else main, "llama")
    (main / ".incoming").mkdir()
    (main / ".incoming" / "half.part").write_bytes(b"half")
    library.origins.put_present(model, Origin(way="download", repo="u/r"), "0" * 64)
    new = tmp_path / "elsewhere" / "models"

    def remember(folder: Path) -> None:
        nonlocal folders
        folders = Folders(folder)

    assert changes.move_library(library, new, remember) == new
    assert files_below(new) == [".incoming/half.part", "a/x.gguf"]
    assert not main.exists()
    assert entry_at(library, new / "a" / "x.gguf").origin.repo == "u/r"
    with pytest.raises(FolderUnusable):
        changes.move_library(library, new / "inside", remember)


def test_a_move_makes_no_changed_file_verified(
    library: Library, main: Path, tmp_path: Path
) -> None:
    origin = Origin(way="download", repo="u/r")
    for name in ("good", "bad"):
        model = write_tiny(main / f"{name}.gguf", "llama", blocks=1)
        library.origins.put_present(model, origin, hashlib.sha256(model.read_bytes()).hexdigest())
        verify(library, entry_at(library, model))
    status = (main / "bad.gguf").stat()
    os.utime(main / "bad.gguf", ns=(status.st_atime_ns, status.st_mtime_ns + 10**10))
    folder = tmp_path / "new"

    def remember(new: Path) -> None:
        library._folders = lambda: Folders(new)  # pyright: ignore[reportPrivateUsage]

    changes.move_library(library, folder, remember)
    found = {one.name: one.verification for one in library.entries() if one.origin.way != "demo"}
    assert found == {"good": "verified", "bad": "changed"}


def test_a_stopped_move_goes_on_when_asked_again(
    library: Library, tmp_path: Path, main: Path
) -> None:
    for name in "abc":
        write_tiny(main / f"{name}.gguf", "llama", blocks=1)
    stop = threading.Event()
    moved: list[Path] = []
    with pytest.raises(Stopped):
        changes.move_library(library, tmp_path / "new", moved.append, lambda *_: stop.set(), stop)
    assert moved == []
    assert len(files_below(main)) + len(files_below(tmp_path / "new")) == 3
    changes.move_library(library, tmp_path / "new", moved.append)
    assert files_below(tmp_path / "new") == ["a.gguf", "b.gguf", "c.gguf"]
    assert moved == [tmp_path / "new"]


def test_verifying_finds_a_single_changed_byte(library: Library, main: Path) -> None:
    model = write_tiny(main / "a.gguf", "llama", blocks=1)
    data = bytearray(model.read_bytes())
    origin = Origin(way="download", repo="u/r")
    library.origins.put_present(model, origin, hashlib.sha256(data).hexdigest())
    assert entry_at(library, model).verification == "not_verified"
    verify(library, entry_at(library, model))
    assert entry_at(library, model).verification == "verified"
    data[-5] ^= 1
    model.write_bytes(data)
    assert entry_at(library, model).verification == "changed"
    with pytest.raises(Damaged):
        verify(library, entry_at(library, model))
    assert entry_at(library, model).verification == "changed", "and stays so"
    data[-5] ^= 1
    model.write_bytes(data)
    verify(library, entry_at(library, model))
    assert entry_at(library, model).verification == "verified"


def test_a_copied_import_can_be_verified(library: Library, outside: Path) -> None:
    path = changes.bring_in(library, write_tiny(outside / "a.gguf", "llama", blocks=1), "copy")
    verify(library, entry_at(library, path))
    assert entry_at(library, path).verification == "verified"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(Damaged):
        verify(library, entry_at(library, path))


def test_a_file_that_is_found_damaged_at_first_is_shown_so(library: Library, main: Path) -> None:
    model = write_tiny(main / "a.gguf", "llama", blocks=1)
    library.origins.put_present(model, Origin(way="download", repo="u/r"), "0" * 64)
    with pytest.raises(Damaged):
        verify(library, entry_at(library, model))
    entry = entry_at(library, model)
    assert (entry.verification, entry.verified_at) == ("changed", None)


def test_without_a_hash_verifying_says_so(library: Library, main: Path) -> None:
    model = write_tiny(main / "a.gguf", "llama", blocks=1)
    with pytest.raises(NothingToCompare):
        verify(library, entry_at(library, model))

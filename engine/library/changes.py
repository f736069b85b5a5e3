"""Brings local files into the library, takes entries out, moves everything to another folder."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.api.models import ImportWay, ModelEntry, Origin, Removal
from engine.gguf.splits import part_paths
from engine.library import copying
from engine.library.copying import Report, Work, silent
from engine.library.errors import (
    FileUnreadable,
    FolderUnusable,
    NameTaken,
    NotAModel,
    Offline,
)
from engine.library.facts import read_facts
from engine.library.groups import RememberedProblem
from engine.library.labels import looks_like_projector, part_of
from engine.library.library import Library, absolute

IMPORTED = "imported"
# Downloads that are under way live below this name in the main folder (see downloads.staging).
INCOMING = ".incoming"


# --- in ------------------------------------------------------------------------------------------


def bring_in(
    library: Library,
    path: Path,
    way: ImportWay,
    report: Report = silent,
    stop: threading.Event | None = None,
) -> Path:
    """Makes the model at `path` (any part of a split one, or a folder with one model) an entry;
    its vision projector comes with it if it is the only model there. Gives the entry's path.
    After an end on the way, however sudden, the same again goes on.

    Raises NotAModel, FileUnreadable, NameTaken, NoRoom, WriteFailed, Stopped, or what is wrong
    with the file; then nothing has changed.
    """

    def is_moved(part: Path) -> bool:
        return way == "move" and _is_moved(library, part)

    files = model_files(path, is_moved)
    files += _projectors_of(files)
    if way == "reference":
        library.database.run_many(
            "INSERT OR IGNORE INTO referenced VALUES (?)", [(os.fsencode(file),) for file in files]
        )
        for file in files:
            library.origins.put_present(file, Origin(way="reference", source=str(file)))
        return files[0]
    folder = copying.made(library.folders.main / IMPORTED / folder_name(files[0]))
    pairs = [
        (file, folder / file.name)
        for file in files
        if not is_moved(file) and not (way == "copy" and copying.is_copy(file, folder / file.name))
    ]
    total = sum(file.stat().st_size for file, _ in pairs)
    if way == "copy":
        copying.require_room(folder, total)
    for _, target in pairs:
        if target.exists():
            raise NameTaken(path=str(target))
    work = Work(f"Importing {files[0].name}", total, report, stop)
    _bring(library, pairs, way, work)
    return folder / files[0].name


def _is_moved(library: Library, part: Path) -> bool:
    """By an earlier try."""
    target = library.folders.main / IMPORTED / folder_name(part) / part.name
    known = library.origins.of(target)
    moved = known is not None and known.origin == Origin(way="move", source=str(part))
    return moved and target.exists() and not part.exists()


def _bring(
    library: Library, pairs: Sequence[tuple[Path, Path]], way: ImportWay, work: Work
) -> None:
    done: list[tuple[Path, Path]] = []
    try:
        for source, target in reversed(pairs):  # the first part last: it makes the others a model
            digest, origin = None, Origin(way=way, source=str(source))
            status = source.stat()  # remembered first: what is there is known, whenever this ends
            library.origins.put(target, origin, size=status.st_size, mtime_ns=status.st_mtime_ns)
            if way == "copy":
                digest = copying.copied(source, target, work)
            else:
                copying.moved(source, target, work)
            done.append((source, target))
            library.origins.put_present(target, origin, digest)
    except BaseException:
        library.origins.forget([target for _, target in pairs])
        for source, target in reversed(done):
            if way == "copy":
                copying.removed(target)
            elif not source.exists():
                copying.moved(target, source, Work("undoing", 0))
        copying.remove_empty([target.parent for _, target in pairs], library.folders.main)
        raise


def model_files(path: Path, is_moved: Callable[[Path], bool] = lambda _: False) -> list[Path]:
    """All files of the model at `path`, in order, each looked at unless it `is_moved` already.
    Raises NotAModel and the like."""
    path = absolute(str(path))
    try:
        if path.is_dir():
            return _in_folder(path)
        parts = part_paths(path)
        left = [part for part in parts if not is_moved(part)]
        missing = [part.name for part in left if not part.is_file()]
    except (OSError, ValueError) as error:
        raise FileUnreadable(path=str(path), reason=str(error)) from error
    if path in left and not path.exists():
        raise FileUnreadable(path=str(path), reason="there is no such file")
    if missing:
        raise NotAModel(path=str(path), reason=f"parts are missing: {', '.join(missing[:3])}")
    for part in left:
        facts = read_facts(part)
        if facts.problem is not None:
            error = RememberedProblem(**facts.problem["data"])
            error.code = facts.problem["code"]  # type: ignore[misc]  # as for NativeError
            raise error
        if facts.kind == "other":
            raise NotAModel(path=str(part), reason="it is a GGUF file, and no model")
    return parts


def _projectors_of(files: Sequence[Path]) -> list[Path]:
    """Beside other models it cannot be told whose they are."""
    others = set(files[0].parent.glob("*.gguf")) - set(files)
    projectors = [one for one in sorted(others) if looks_like_projector(one.name)]
    if looks_like_projector(files[0].name) or len(projectors) < len(others):
        return []
    width = read_facts(files[0]).width
    found = [(one, read_facts(one)) for one in projectors]
    return [
        one
        for one, facts in found
        if facts.kind == "projector" and facts.projection in (width, None)
    ]


def _in_folder(folder: Path) -> list[Path]:
    files = [one for one in sorted(folder.glob("*.gguf")) if not looks_like_projector(one.name)]
    sets = {tuple(part_paths(file)) for file in files}
    if len(sets) != 1:
        reason = "it holds no model" if not sets else f"it holds {len(sets)} models; name one"
        raise NotAModel(path=str(folder), reason=reason)
    return model_files(sets.pop()[0])


def folder_name(first: Path) -> str:
    """What to call the folder, or the prefiller, of the model that begins with `first`."""
    return part_of(first.name).name


# --- out -----------------------------------------------------------------------------------------


def removal(library: Library, entry: ModelEntry, entries: Sequence[ModelEntry]) -> Removal:
    """What removing `entry` would do."""
    referenced = set(library.referenced())
    goes: list[Path] = []
    stays: list[Path] = []
    shared: dict[str, tuple[str, ...]] = {}
    for path in [file.path for file in entry.files] + [one.path for one in entry.projectors]:
        users = tuple(
            other.name
            for other in entries
            if other.id != entry.id and other.path != path and _uses(other, path)
        )
        ours = path not in referenced and entry.origin.way != "demo"
        if users:
            shared[str(path)] = users
        if users or not ours:
            stays.append(path)
        else:
            goes.append(path)
    sizes = {file.path: file.bytes for file in entry.files}
    sizes |= {one.path: one.bytes for one in entry.projectors}
    return Removal(
        id=entry.id,
        name=entry.name,
        goes=tuple(goes),
        stays=tuple(stays),
        shared=shared,
        bytes=sum(sizes[path] for path in goes),
        left_behind=_left_behind(entry, entries),
    )


def take_out(library: Library, what: Removal) -> None:
    """Removes what `removal` listed. The first part goes first, so that an interrupted removal
    leaves no model that looks usable. Raises Offline or WriteFailed."""
    for path in what.goes:
        folder = path.parent
        if not folder.exists() and any(
            path.is_relative_to(known) and not known.exists() for known in library.folders.all
        ):
            raise Offline(path=str(path))
    for path in what.goes:
        copying.removed(path)
    paths = [*what.goes, *(path for path in what.stays if str(path) not in what.shared)]
    library.origins.forget(paths)
    gone = [(os.fsencode(path),) for path in paths]
    library.database.run_many("DELETE FROM referenced WHERE path = ?", gone)
    library.database.run_many("DELETE FROM headers WHERE path = ?", gone)
    for folder in library.folders.all:
        copying.remove_empty([path.parent for path in what.goes], folder)


def _uses(entry: ModelEntry, path: Path) -> bool:
    own = any(file.path == path for file in entry.files)
    return own or any(one.path == path for one in entry.projectors)


def _left_behind(entry: ModelEntry, entries: Sequence[ModelEntry]) -> tuple[str, ...]:
    """Prefillers that belong to this decoder and to no other."""
    others = {
        one.id for other in entries if other.id != entry.id
        for one in other.prefillers if one.choosable
    }  # fmt: skip
    own = [one for one in entry.prefillers if one.choosable and one.id not in others]
    return tuple(str(one.path) for one in own)


def copy_out(
    entry: ModelEntry, folder: Path, report: Report = silent, stop: threading.Event | None = None
) -> list[Path]:
    """Copies all of an entry's files to `folder`; gives their paths there. What was copied there
    before, and is the same, is not copied again.

    Raises Offline for an entry that is not there, and what copying may raise.
    """
    if entry.state in ("offline", "absent"):
        raise Offline(path=str(entry.path))
    target = copying.made(absolute(str(folder)))
    pairs = [(file.path, target / file.path.name) for file in entry.files]
    left = [(source, copy) for source, copy in pairs if not copying.is_copy(source, copy)]
    total = sum(source.stat().st_size for source, _ in left)
    copying.require_room(target, total)
    work = Work(f"Exporting {entry.name}", total, report, stop)
    done: list[Path] = []
    try:
        for source, copy in reversed(left):
            copying.copied(source, copy, work)
            done.append(copy)
    except BaseException:
        for path in done:
            copying.removed(path)
        raise
    return [copy for _, copy in pairs]


# --- elsewhere -----------------------------------------------------------------------------------


def move_library(
    library: Library,
    folder: Path,
    remember: Callable[[Path], None],
    report: Report = silent,
    stop: threading.Event | None = None,
) -> Path:
    """Moves every file of the main folder to `folder`, half-done downloads included, and then
    lets `remember` make it the main one. Gives the new folder.

    Stopped or failed on the way, every file is in exactly one of both folders, the old one stays
    the main one, and moving again goes on. Raises FolderUnusable, NoRoom and the like.
    """
    old = library.folders.main
    new = absolute(str(folder))
    if new == old:
        return new
    require_movable(old, new)
    files = [Path(where) / name for where, _, names in os.walk(old) for name in names]
    total = sum(_size(file) for file in files)
    if new.stat().st_dev != old.stat().st_dev:
        copying.require_room(new, total)
    work = Work(f"Moving the library to {new}", total, report, stop)
    for file in sorted(files, reverse=True):  # of split models, the first part last
        target = new / file.relative_to(old)
        copying.made(target.parent)
        copying.moved(file, target, work)
        library.origins.moved(file, target)
    remember(new)
    copying.remove_empty([Path(where) for where, _, _ in os.walk(old)], old.parent)
    return new


def require_movable(old: Path, new: Path) -> None:
    """Raises FolderUnusable for a folder to which `old` cannot be moved."""
    if new != old and (new.is_relative_to(old) or old.is_relative_to(new)):
        raise FolderUnusable(path=str(new), reason="one of both folders is inside the other")
    require_usable(new)


def is_writable(folder: Path) -> bool:
    try:
        require_usable(folder)
    except FolderUnusable:
        return False
    return True


def require_usable(folder: Path) -> None:
    """Raises FolderUnusable if models cannot be kept there; makes the folder."""
    probe = folder / f".twofold-{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"")
        probe.unlink()
        shutil.disk_usage(folder)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FolderUnusable(path=str(folder), reason=reason) from error


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0

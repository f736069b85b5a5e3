"""The installed backends: their files, whether they are wanted, and what the self-check found.

Each has a folder of its own below the data folder: `libggml-<name>.so` and `state.json`. The
package carries others, whose files lie with the program; one that was installed takes the place of
a carried one of the same name.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict, ValidationError

import engine
from engine import paths, pinned
from engine.api.backends import BackendInfo, CheckedDevice
from engine.backends.errors import BackendIsCarried, BackendNotFound, BackendNotReadable
from engine.backends.stamp import Stamp, require_match

_STATE = "state.json"


class Verdict(BaseModel):
    """What the self-check found for the file and the start of the machine in `fingerprint`."""

    model_config = ConfigDict(frozen=True)

    fingerprint: str
    reason: str | None = None
    detail: str = ""
    devices: tuple[CheckedDevice, ...] = ()


class State(BaseModel):
    model_config = ConfigDict(frozen=True)

    enabled: bool = True
    verdict: Verdict | None = None


class Installed(BaseModel):
    """A backend that was installed here, or that the package carries."""

    model_config = ConfigDict(frozen=True)

    name: str
    path: Path
    state: State
    carried: bool = False

    def fingerprint(self) -> str:
        """Changes with the file, and with each start of the machine: drivers change then."""
        facts = self.path.stat()
        return f"{facts.st_size} {facts.st_mtime_ns} {_boot()} {pinned.version()}"

    def fresh_verdict(self) -> Verdict | None:
        verdict = self.state.verdict
        return verdict if verdict and verdict.fingerprint == self.fingerprint() else None

    def info(self) -> BackendInfo:
        verdict = self.fresh_verdict()
        if not self.state.enabled:
            state = "disabled"
        elif verdict is None:
            state = "unchecked"
        else:
            state = "unfit" if verdict.reason else "ready"
        return BackendInfo(
            name=self.name,
            path=self.path,
            state=state,
            enabled=self.state.enabled,
            carried=self.carried,
            reason=verdict.reason if verdict and self.state.enabled else None,
            detail=verdict.detail if verdict and self.state.enabled else "",
            devices=verdict.devices if verdict else (),
        )


def folder() -> Path:
    return paths.data_folder() / "backends"


def carried_folder() -> Path:
    """Where the package has the backends that it carries; a checkout has none there."""
    return Path(engine.__file__ or "").parent.parent / "backends"


def installed() -> list[Installed]:
    """All of them, by name; a file whose state cannot be read counts as not checked."""
    found: dict[str, Installed] = {}
    for library in carried_folder().glob("libggml-*.so"):
        name = library.stem.removeprefix("libggml-")
        found[name] = Installed(name=name, path=library, state=_load(name), carried=True)
    for library in folder().glob("*/libggml-*.so"):
        name = library.parent.name
        if library.name == f"libggml-{name}.so":
            found[name] = Installed(name=name, path=library, state=_load(name))
    return [found[name] for name in sorted(found)]


def find(name: str) -> Installed:
    """Raises BackendNotFound."""
    for backend in installed():
        if backend.name == name:
            return backend
    raise BackendNotFound(name=name)


def install(file: Path) -> Installed:
    """Copies a backend's file in, in place of an older one; it is not opened.

    Raises what `engine.backends.stamp.require_match` raises.
    """
    stamp: Stamp = require_match(file, pinned.version())
    place = folder() / stamp.backend
    target = place / f"libggml-{stamp.backend}.so"
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=place, delete=False) as copy:
            shutil.copyfile(file, copy.name)
        Path(copy.name).chmod(0o755)
        Path(copy.name).replace(target)
    except OSError as error:
        raise BackendNotReadable(path=str(file), reason=error.strerror or str(error)) from error
    save(Installed(name=stamp.backend, path=target, state=State()))
    return find(stamp.backend)


def remove(name: str) -> None:
    """Raises BackendNotFound, or BackendIsCarried for one that is part of the program."""
    if find(name).carried:
        raise BackendIsCarried(name=name)
    shutil.rmtree(folder() / name)


def save(backend: Installed) -> None:
    path = folder() / backend.name / _STATE
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{_STATE}.{os.getpid()}.new")
    temporary.write_text(backend.state.model_dump_json(indent=1), encoding="utf-8")
    temporary.replace(path)


def set_enabled(name: str, enabled: bool) -> Installed:
    """Raises BackendNotFound. Enabling forgets the last check: the next start makes it anew."""
    backend = find(name)
    verdict = None if enabled else backend.state.verdict
    changed = backend.model_copy(update={"state": State(enabled=enabled, verdict=verdict)})
    save(changed)
    return changed


def set_verdict(backend: Installed, verdict: Verdict) -> Installed:
    state = backend.state.model_copy(update={"verdict": verdict})
    changed = backend.model_copy(update={"state": state})
    with contextlib.suppress(OSError):
        save(changed)
    return changed


def _load(name: str) -> State:
    try:
        return State.model_validate_json((folder() / name / _STATE).read_text(encoding="utf-8"))
    except (OSError, ValidationError):
        return State()


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return str(int(psutil.boot_time()))

"""Reads what a backend's file was built for, without opening it as a library.

The layout is that of 64-bit little-endian ELF (System V ABI, gABI 4.1): a header of 64 bytes,
section headers of 64 bytes each at e_shoff, and a section that holds their names.
"""

from __future__ import annotations

import platform
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import BaseModel, ConfigDict, ValidationError

from engine.backends.errors import (
    BackendNotALibrary,
    BackendNotReadable,
    BackendNotStamped,
    BackendWrongMachine,
    BackendWrongVersion,
)

SECTION = b".twofold"
# e_machine of the processors that Twofold runs on.
_MACHINES = {"x86_64": 62, "aarch64": 183}
_SHARED_OBJECT = 3
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_LONGEST_STAMP = 1 << 16


class Stamp(BaseModel):
    """What the build wrote into the file; other facts are left to people."""

    model_config = ConfigDict(frozen=True)

    backend: str
    version: str
    commit: str


def read_stamp(path: Path) -> Stamp:
    """Raises BackendNotReadable, BackendNotALibrary, BackendWrongMachine or BackendNotStamped."""
    try:
        with path.open("rb") as file:
            return _read(path, file)
    except OSError as error:
        raise BackendNotReadable(path=str(path), reason=error.strerror or str(error)) from error
    except (struct.error, OverflowError, ValueError) as error:
        raise BackendNotALibrary(path=str(path)) from error


def require_match(path: Path, version: str) -> Stamp:
    """Raises BackendWrongVersion too, if the file is for another library than the pinned one."""
    stamp = read_stamp(path)
    if stamp.version != version:
        raise BackendWrongVersion(path=str(path), found=stamp.version, wanted=version)
    return stamp


def _read(path: Path, file: BinaryIO) -> Stamp:
    header: tuple[Any, ...] = _HEADER.unpack(file.read(_HEADER.size))
    ident, kind, machine = header[:3]
    table: int = header[6]
    size: int = header[11]
    count: int = header[12]
    names: int = header[13]
    if ident[:6] != b"\x7fELF\x02\x01" or kind != _SHARED_OBJECT or size != _SECTION.size:
        raise BackendNotALibrary(path=str(path))
    if machine != _MACHINES.get(platform.machine()):
        raise BackendWrongMachine(path=str(path), wanted=platform.machine())
    # The headers of the sections are a file's last bytes: a file cut short lacks them.
    file.seek(table)
    raw = file.read(size * count)
    sections: list[tuple[int, ...]] = [
        _SECTION.unpack_from(raw, index * size) for index in range(count)
    ]
    if names >= count:
        raise BackendNotALibrary(path=str(path))
    texts = _content(file, sections[names])
    for content in _named(file, sections, texts):
        try:
            return Stamp.model_validate_json(content)
        except ValidationError as error:
            raise BackendNotStamped(path=str(path)) from error
    raise BackendNotStamped(path=str(path))


def _named(file: BinaryIO, sections: list[tuple[int, ...]], texts: bytes) -> Iterator[bytes]:
    for section in sections:
        start = section[0]
        if texts[start : start + len(SECTION) + 1] == SECTION + b"\0":
            yield _content(file, section)


def _content(file: BinaryIO, section: tuple[int, ...]) -> bytes:
    file.seek(section[4])
    return file.read(min(section[5], _LONGEST_STAMP))

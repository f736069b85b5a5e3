"""Opens a GGUF model that may be split over several files, as one model.

Parts are named `<name>-00001-of-00004.gguf` and carry `split.no`, `split.count` and
`split.tensors.count`; the metadata that counts is the first part's (llama.cpp's gguf-split).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from engine.gguf.errors import Duplicate, SplitMissing, SplitMixed, TooMany
from engine.gguf.reader import GgufFile, TensorInfo, Value, read_gguf
from engine.gguf.types import ValueType

SPLIT_COUNT = "split.count"
SPLIT_NO = "split.no"
SPLIT_TENSORS = "split.tensors.count"
MAX_PARTS = 1024

_PART_NAME = re.compile(r"(?P<name>.+)-(?P<no>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL)


@dataclass(frozen=True)
class GgufModel:
    """One model: its files in order, and the tensors of all of them."""

    files: tuple[GgufFile, ...]

    @property
    def path(self) -> Path:
        """The first file: the one to hand to the library."""
        return self.files[0].path

    @property
    def metadata(self) -> Mapping[str, Value]:
        return self.files[0].metadata

    @property
    def value_types(self) -> Mapping[str, ValueType]:
        return self.files[0].value_types

    @property
    def file_size(self) -> int:
        """Bytes of all files together."""
        return sum(file.file_size for file in self.files)

    @cached_property
    def tensors(self) -> tuple[TensorInfo, ...]:
        return tuple(tensor for file in self.files for tensor in file.tensors)

    @cached_property
    def by_name(self) -> Mapping[str, TensorInfo]:
        return MappingProxyType({tensor.name: tensor for tensor in self.tensors})


def part_paths(path: Path) -> list[Path]:
    """All parts' paths of the set that `path` names itself a part of; just `path` if none."""
    match = _PART_NAME.fullmatch(path.name)
    if match is None:
        return [path]
    count = int(match["count"])
    if not 1 <= int(match["no"]) <= count:
        return [path]
    if count > MAX_PARTS:
        raise TooMany(path, what="parts", count=count, limit=MAX_PARTS)
    return [
        path.with_name(f"{match['name']}-{no:05d}-of-{count:05d}.gguf")
        for no in range(1, count + 1)
    ]


def open_model(path: Path) -> GgufModel:
    """Read the headers of the model that `path`, or any part of it, belongs to."""
    chosen = read_gguf(path)
    count = chosen.metadata.get(SPLIT_COUNT, 0)
    if count in (0, 1):  # whole, whatever its name says
        return GgufModel((chosen,))
    paths = part_paths(path)
    if len(paths) != count:
        raise SplitMixed(path, part=path.name, key=SPLIT_COUNT, value=count, expected=len(paths))
    missing = [part.name for part in paths if not part.is_file()]
    if missing:
        raise SplitMissing(path, missing=", ".join(missing))
    files = tuple(chosen if part == path else read_gguf(part) for part in paths)
    model = GgufModel(files)
    _check_set(path, model)
    return model


def _check_set(chosen: Path, model: GgufModel) -> None:
    n_tensors = len(model.tensors)
    for no, file in enumerate(model.files):
        expected = (
            (SPLIT_NO, no, ValueType.UINT16),
            (SPLIT_COUNT, len(model.files), ValueType.UINT16),
            (SPLIT_TENSORS, n_tensors, ValueType.INT32),
        )
        for key, value, type_ in expected:
            found = file.metadata.get(key)
            # the library aborts on another type, even if the number is right
            if found != value or file.value_types[key] is not type_:
                raise SplitMixed(
                    chosen, part=file.path.name, key=key, value=_shown(found), expected=value
                )
    if len(model.by_name) != n_tensors:
        seen: set[str] = set()
        for tensor in model.tensors:
            if tensor.name in seen:
                raise Duplicate(tensor.path, kind="tensor", name=tensor.name)
            seen.add(tensor.name)


def _shown(value: Value | None) -> int | float | str:
    if value is None:
        return "not given"
    return value if isinstance(value, int | float | str) else "a list"

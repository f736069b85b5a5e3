"""Opens any accepted prefiller, trusting none of it: ours, the published layout, upstream's.

Ours is one file; the scale of each tensor is in the key `odp.scale.<tensor>`. The published
layout is the same in split parts, one a block. Upstream's NVFP4 models keep the scale of
`blk.0.attn_q.weight` in the one-element F32 tensor `blk.0.attn_q.scale`; they may be whole
models, whose other tensors a prefiller does not need.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from engine.gguf.errors import Unreadable
from engine.gguf.reader import GgufFile, TensorInfo, Value, read_gguf
from engine.gguf.splits import part_paths
from engine.gguf.types import GgmlType, ValueType
from engine.prefiller.errors import (
    BadScale,
    DuplicateTensor,
    Empty,
    ExtraTensor,
    MissingTensors,
    MixedParts,
    NewerFormat,
    NoScale,
    NotFound,
    PartsMissing,
    SeveralFiles,
    TwoScales,
    WholeModel,
    WrongDimensions,
    WrongType,
)
from engine.prefiller.linears import BlockLinear, block_linear

SCALE_KEY = "odp.scale."
ARCHITECTURE_KEY = "general.architecture"

# Keys of ours.
FORMAT = 1
FORMAT_KEY = "twofold.prefiller.format"
TOOL_KEY = "twofold.prefiller.tool"
METHOD_KEY = "twofold.prefiller.method"
TENSOR_COUNT_KEY = "twofold.prefiller.tensor_count"
SOURCE_NAME_KEY = "twofold.prefiller.source.name"
SOURCE_HASH_KEY = "twofold.prefiller.source.hash"
DECODER_NAME_KEY = "twofold.prefiller.decoder.name"
DECODER_HASH_KEY = "twofold.prefiller.decoder.hash"
DECODER_QUANTISATION_KEY = "twofold.prefiller.decoder.quantisation"
DECODER_BLOCKS_KEY = "twofold.prefiller.decoder.block_count"


class Layout(StrEnum):
    TWOFOLD = "twofold"
    PUBLISHED = "published"
    UPSTREAM = "upstream"


@dataclass(frozen=True, slots=True)
class PrefillerTensor:
    """One NVFP4 weight.

    `offset` and `nbytes` are bytes in `files[file_index]`; `shape` has the fastest dimension
    first; weights are the blocks' values times `scale`.
    """

    name: str
    block: int
    file_index: int
    offset: int
    nbytes: int
    shape: tuple[int, ...]
    scale: float


@dataclass(frozen=True)
class Origin:
    """What the file says of its making; None where it does not."""

    tool: str | None
    method: str | None
    source_name: str | None
    source_hash: str | None
    decoder_name: str | None
    decoder_quantisation: str | None


@dataclass(frozen=True)
class Prefiller:
    """A prefiller whose every tensor has been found sound; `tensors` go block by block."""

    path: Path
    layout: Layout
    architecture: str | None
    block_count: int | None
    tensors: tuple[PrefillerTensor, ...]
    files: tuple[Path, ...]
    metadata: Mapping[str, Value]
    decoder_hash: str | None
    origin: Origin

    @property
    def nbytes(self) -> int:
        """Bytes of all weights."""
        return sum(tensor.nbytes for tensor in self.tensors)

    @cached_property
    def by_name(self) -> Mapping[str, PrefillerTensor]:
        return MappingProxyType({tensor.name: tensor for tensor in self.tensors})


def open_prefiller(path: Path) -> Prefiller:
    """Read the prefiller at `path`: a file, any part of a split one, or the folder of either.

    Raises a PrefillerError, or a GgufError where a file is no sound GGUF.
    """
    files = [read_gguf(file) for file in _files_of(path)]
    metadata = _merged_metadata(path, files)
    _check_format(path, metadata)
    scales = _Scales(path, files)
    placed = sorted(_tensors(files, scales), key=lambda found: found[0].position)
    tensors = tuple(tensor for _, tensor in placed)
    if not tensors:
        raise Empty(path=str(path))
    expected = _whole_number(metadata, TENSOR_COUNT_KEY)
    if expected is not None and expected != len(tensors):
        raise MissingTensors(path=str(path), found=len(tensors), expected=expected)
    return Prefiller(
        path=path,
        layout=_layout(metadata, scales),
        architecture=_text(metadata, ARCHITECTURE_KEY),
        block_count=_block_count(metadata),
        tensors=tensors,
        files=tuple(file.path for file in files),
        metadata=metadata,
        decoder_hash=_text(metadata, DECODER_HASH_KEY),
        origin=Origin(
            tool=_text(metadata, TOOL_KEY),
            method=_text(metadata, METHOD_KEY),
            source_name=_text(metadata, SOURCE_NAME_KEY),
            source_hash=_text(metadata, SOURCE_HASH_KEY),
            decoder_name=_text(metadata, DECODER_NAME_KEY),
            decoder_quantisation=_text(metadata, DECODER_QUANTISATION_KEY),
        ),
    )


def _files_of(path: Path) -> list[Path]:
    if path.is_dir():
        found = sorted(path.glob("*.gguf"))
        sets = {tuple(part_paths(file)) for file in found}
        if not sets:
            raise NotFound(path=str(path))
        if len(sets) > 1:
            names = ", ".join(sorted(parts[0].name for parts in sets))
            raise SeveralFiles(path=str(path), files=names)
        parts = list(sets.pop())
    elif path.is_file():
        parts = part_paths(path)
    else:
        raise NotFound(path=str(path))
    missing = [part.name for part in parts if not part.is_file()]
    if missing:
        raise PartsMissing(path=str(path), count=len(parts), missing=_some(missing))
    return parts


def _merged_metadata(path: Path, files: list[GgufFile]) -> Mapping[str, Value]:
    """The keys of all parts; parts may not disagree on what the prefiller is."""
    merged: dict[str, Value] = {}
    same = (ARCHITECTURE_KEY, FORMAT_KEY, DECODER_HASH_KEY, DECODER_QUANTISATION_KEY)
    for file in files:
        for key in same:
            if key in merged and key in file.metadata and merged[key] != file.metadata[key]:
                values = f"{merged[key]}, {file.metadata[key]}"
                raise MixedParts(path=str(path), key=key, values=values)
        merged = {**file.metadata, **merged}
    return MappingProxyType(merged)


def _check_format(path: Path, metadata: Mapping[str, Value]) -> None:
    version = metadata.get(FORMAT_KEY, FORMAT)
    if not isinstance(version, int) or version > FORMAT:
        shown = version if isinstance(version, int | float | str) else "a list"
        raise NewerFormat(path=str(path), version=shown, known=FORMAT)


class _Scales:
    """Where each tensor's scale is: a key of its own file or of another, or a tensor."""

    def __init__(self, path: Path, files: list[GgufFile]) -> None:
        self._path = path
        self._keys: dict[str, tuple[Value, ValueType]] = {}
        self._tensors: dict[str, TensorInfo] = {}
        for file in files:
            for key, value in file.metadata.items():
                if key.startswith(SCALE_KEY):
                    self._keys[key.removeprefix(SCALE_KEY)] = value, file.value_types[key]
            for tensor in file.tensors:
                weight = tensor.name.removesuffix(".scale") + ".weight"
                if tensor.name.endswith(".scale") and block_linear(weight):
                    self._tensors[weight] = tensor
        for name in self._keys.keys() & self._tensors.keys():
            raise TwoScales(path=str(path), tensor=name)

    @property
    def in_tensors(self) -> bool:
        return bool(self._tensors)

    def of(self, name: str) -> float:
        if name in self._keys:
            value, type_ = self._keys[name]
            scale = value if type_ is ValueType.FLOAT32 else None
        elif name in self._tensors:
            scale = self._read(self._tensors[name])
        else:
            raise NoScale(path=str(self._path), tensor=name)
        if not isinstance(scale, float) or not math.isfinite(scale) or scale <= 0:
            shown = scale if isinstance(scale, float) else "no 32-bit float"
            raise BadScale(path=str(self._path), tensor=name, scale=shown)
        return scale

    @staticmethod
    def _read(tensor: TensorInfo) -> float | None:
        if tensor.type is not GgmlType.F32 or tensor.nbytes != 4:
            return None
        try:
            with tensor.path.open("rb") as file:
                file.seek(tensor.absolute_offset)
                raw = file.read(4)
        except OSError as error:
            raise Unreadable(tensor.path, reason=error.strerror or str(error)) from error
        return struct.unpack("<f", raw)[0] if len(raw) == 4 else None


def _tensors(
    files: list[GgufFile], scales: _Scales
) -> Iterator[tuple[BlockLinear, PrefillerTensor]]:
    holders: dict[str, Path] = {}
    for index, file in enumerate(files):
        for tensor in file.tensors:
            place = block_linear(tensor.name)
            if place is None:
                if not scales.in_tensors:
                    if tensor.name == "token_embd.weight":
                        raise WholeModel(path=str(file.path))
                    raise ExtraTensor(path=str(file.path), tensor=tensor.name)
                continue
            if tensor.name in holders:
                other = str(holders[tensor.name])
                raise DuplicateTensor(path=str(file.path), other=other, tensor=tensor.name)
            holders[tensor.name] = file.path
            if tensor.type is not GgmlType.NVFP4:
                raise WrongType(path=str(file.path), tensor=tensor.name, type=tensor.type.name)
            if len(tensor.shape) != 2:
                shape = list(tensor.shape)
                raise WrongDimensions(path=str(file.path), tensor=tensor.name, shape=shape)
            yield (
                place,
                PrefillerTensor(
                    name=tensor.name,
                    block=place.block,
                    file_index=index,
                    offset=tensor.absolute_offset,
                    nbytes=tensor.nbytes,
                    shape=tensor.shape,
                    scale=scales.of(tensor.name),
                ),
            )


def _layout(metadata: Mapping[str, Value], scales: _Scales) -> Layout:
    if FORMAT_KEY in metadata:
        return Layout.TWOFOLD
    return Layout.UPSTREAM if scales.in_tensors else Layout.PUBLISHED


def _block_count(metadata: Mapping[str, Value]) -> int | None:
    ours = _whole_number(metadata, DECODER_BLOCKS_KEY)
    return ours or _whole_number(metadata, f"{_text(metadata, ARCHITECTURE_KEY)}.block_count")


def _text(metadata: Mapping[str, Value], key: str) -> str | None:
    value = metadata.get(key)
    return value if isinstance(value, str) and value else None


def _whole_number(metadata: Mapping[str, Value], key: str) -> int | None:
    value = metadata.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _some(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"

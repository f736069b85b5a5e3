"""Builds a prefiller from a model: round-to-nearest NVFP4 of every linear weight of its blocks.

A tensor's scale is its largest magnitude / (6 * 448), shared by the layers that kernels fuse.
Weights go from the source's type through FP32 to NVFP4 in cache-sized pieces, block by block,
on all cores; while one block is written the next is encoded.
"""

from __future__ import annotations

import importlib.metadata
import itertools
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

from engine.gguf.identity import decoder_hash
from engine.gguf.reader import TensorInfo
from engine.gguf.splits import GgufModel, open_model
from engine.prefiller.decoder import Decoder, describe_decoder
from engine.prefiller.errors import Cancelled, NothingToQuantise, OutputIsInput, SourceMismatch
from engine.prefiller.formats import (
    DECODER_BLOCKS_KEY,
    DECODER_HASH_KEY,
    DECODER_NAME_KEY,
    DECODER_QUANTISATION_KEY,
    FORMAT,
    FORMAT_KEY,
    METHOD_KEY,
    SCALE_KEY,
    SOURCE_HASH_KEY,
    SOURCE_NAME_KEY,
    TENSOR_COUNT_KEY,
    TOOL_KEY,
    Prefiller,
    open_prefiller,
)
from engine.prefiller.linears import BlockLinear, scale_groups
from engine.prefiller.output import (
    MetadataValue,
    PlannedTensor,
    header,
    padding,
    whole_or_nothing,
)
from engine.prefiller.quantise import Encoded, Quantiser

ReportProgress = Callable[[int, int], None]


def build_prefiller(
    decoder: Path,
    out: Path,
    source: Path | None = None,
    progress: ReportProgress | None = None,
    cancel: threading.Event | None = None,
    *,
    overwrite: bool = False,
) -> Prefiller:
    """Write to `out` a prefiller for `decoder`, from its own weights or from a better `source`.

    `progress` gets the bytes of source weights done and in all. Setting `cancel` raises
    Cancelled within a moment. It, any other error and Ctrl-C leave nothing behind.
    """
    model = open_model(decoder)
    facts = describe_decoder(model)
    if not facts.linears:
        raise NothingToQuantise(path=str(decoder))
    weights = model if source is None else open_model(source)
    tensors = _source_tensors(facts, weights)
    _refuse_inputs(out, [file.path for file in (*model.files, *weights.files)])

    groups = scale_groups(facts.linears)
    planned = [_planned(place, tensors[place]) for group in groups for place in group]
    metadata = prefiller_metadata(facts, weights, len(planned), method="rtn")
    scales = {tensor.name: 1.0 for tensor in planned}
    nbytes = len(prefiller_header(metadata, planned, scales))
    nbytes += sum(tensor.nbytes + padding(tensor.nbytes) for tensor in planned)

    done, total = 0, sum(tensor.nbytes for tensor in tensors.values())

    def check_cancelled() -> None:
        if cancel and cancel.is_set():
            raise Cancelled(path=str(out))

    def advance(source_bytes: int) -> None:
        nonlocal done
        done += source_bytes
        if progress:
            progress(done // Quantiser.PASSES, total)

    with (
        whole_or_nothing(out, nbytes, overwrite=overwrite) as file,
        ThreadPoolExecutor(1, "prefiller-writer") as writer,
        Quantiser(weights, tensors, advance, check_cancelled) as quantiser,
    ):
        file.write(prefiller_header(metadata, planned, scales))
        written: Future[None] | None = None
        for _, block in itertools.groupby(groups, key=lambda group: group[0].block):
            encoded = quantiser.encode(list(block))
            scales |= {tensor.name: tensor.scale for tensor in encoded}
            if written:
                written.result()
            written = writer.submit(_write, file, encoded)
        if written:
            written.result()
        check_cancelled()
        file.seek(0)
        file.write(prefiller_header(metadata, planned, scales))
    return open_prefiller(out)


def _source_tensors(facts: Decoder, source: GgufModel) -> dict[BlockLinear, TensorInfo]:
    """The source's tensor for each of the decoder's linears, or SourceMismatch."""

    def mismatch(what: str, found: object, expected: object) -> SourceMismatch:
        paths = {"source": str(source.path), "decoder": str(facts.model.path)}
        return SourceMismatch(**paths, tensor=what, found=found, expected=expected)

    for key in ("general.architecture", f"{facts.architecture}.block_count"):
        found, expected = source.metadata.get(key), facts.model.metadata[key]
        if found != expected:
            raise mismatch(key, found, expected)
    tensors: dict[BlockLinear, TensorInfo] = {}
    for place, wanted in facts.linears.items():
        tensor = source.by_name.get(place.name)
        if tensor is None:
            raise mismatch(place.name, "missing", list(wanted.shape))
        if tensor.shape != wanted.shape:
            raise mismatch(place.name, list(tensor.shape), list(wanted.shape))
        tensors[place] = tensor
    return tensors


def _refuse_inputs(out: Path, inputs: Sequence[Path]) -> None:
    if out.exists() and any(out.samefile(path) for path in inputs):
        raise OutputIsInput(path=str(out))


def _planned(place: BlockLinear, tensor: TensorInfo) -> PlannedTensor:
    row, rows = tensor.shape
    return PlannedTensor(place.name, (row, rows))


def prefiller_metadata(
    facts: Decoder, source: GgufModel, tensors: int, *, method: str
) -> dict[str, MetadataValue]:
    """What a prefiller of `tensors` weights for the decoder `facts` says of itself."""
    name = source.metadata.get("general.name")
    return {
        "general.architecture": facts.architecture,
        "general.type": "prefiller",
        "general.name": f"{facts.name} prefiller",
        FORMAT_KEY: FORMAT,
        TOOL_KEY: f"twofold {importlib.metadata.version('twofold')}",
        METHOD_KEY: method,
        TENSOR_COUNT_KEY: tensors,
        SOURCE_NAME_KEY: name if isinstance(name, str) and name else source.path.name,
        SOURCE_HASH_KEY: decoder_hash(source),
        DECODER_NAME_KEY: facts.name,
        DECODER_HASH_KEY: decoder_hash(facts.model),
        DECODER_QUANTISATION_KEY: facts.labels[0] if facts.labels else "",
        DECODER_BLOCKS_KEY: facts.block_count,
    }


def prefiller_header(
    metadata: Mapping[str, MetadataValue],
    planned: Sequence[PlannedTensor],
    scales: Mapping[str, float],
) -> bytes:
    """The file's start, with each tensor's scale."""
    keys = {SCALE_KEY + name: scale for name, scale in scales.items()}
    return header({**metadata, **keys}, planned)


def _write(file: BinaryIO, tensors: Sequence[Encoded]) -> None:
    for tensor in tensors:
        file.write(tensor.blocks.data)
        file.write(bytes(padding(tensor.blocks.nbytes)))
    file.flush()
    os.fsync(file.fileno())  # block by block, so that the last wait is short

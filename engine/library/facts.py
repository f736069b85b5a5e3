"""What the library remembers of one GGUF file's header, so that it is read only once."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from gguf import LlamaFileType

from engine.drafts.layouts import Method
from engine.errors import TwofoldError
from engine.gguf.reader import GgufFile, Value, read_gguf
from engine.gguf.splits import SPLIT_COUNT, SPLIT_TENSORS
from engine.library.labels import looks_like_projector, part_of, quantisation_in
from engine.prefiller.formats import (
    DECODER_HASH_KEY,
    DECODER_QUANTISATION_KEY,
    FORMAT_KEY,
    SCALE_KEY,
)

# drafter: guesses for a decoder, and writes nothing alone.
# other: sound, and nothing that can be loaded (an importance matrix, an adapter).
FileKind = Literal["decoder", "prefiller", "projector", "drafter", "other"]

_CODE, _DATA = "code", "data"


@dataclass(frozen=True, slots=True)
class FileFacts:
    """`problem` is a failure's code and data; nothing else is known then. `width` is the
    embedding's, `projection` the width of what a projector puts out. `split_count` is what the
    file says of its set, `split_tensors` how many tensors that should have."""

    kind: FileKind = "other"
    architecture: str | None = None
    name: str | None = None
    quantisation: str | None = None
    licence: str | None = None
    context: int | None = None
    blocks: int | None = None
    width: int | None = None
    projection: int | None = None
    experts: int = 0
    parameters: int = 0
    tensors: int = 0
    split_count: int = 0
    split_tensors: int | None = None
    decoder_hash: str | None = None
    problem: dict[str, Any] | None = None

    def to_json(self) -> str:
        known = ((field.name, getattr(self, field.name)) for field in fields(self))
        return json.dumps({name: value for name, value in known if value is not None})

    @classmethod
    def from_json(cls, text: str) -> FileFacts:
        return cls(**json.loads(text))


def read_facts(path: Path) -> FileFacts:
    """The file's facts; one that is not sound has a problem and no other."""
    try:
        return facts_of(read_gguf(path))
    except TwofoldError as error:
        return FileFacts(problem={_CODE: error.code, _DATA: error.data})


def facts_of(file: GgufFile) -> FileFacts:
    keys = file.metadata
    architecture = _text(keys, "general.architecture")
    kind = _kind(file, architecture)
    return FileFacts(
        kind=kind,
        architecture=architecture,
        name=_text(keys, "general.name"),
        quantisation=_quantisation(file, kind),
        licence=_text(keys, "general.license"),
        context=_number(keys, f"{architecture}.context_length"),
        blocks=_number(keys, f"{architecture}.block_count")
        or _number(keys, "twofold.prefiller.decoder.block_count"),
        width=_number(keys, f"{architecture}.embedding_length"),
        projection=_number(keys, "clip.vision.projection_dim"),
        experts=_number(keys, f"{architecture}.expert_count") or 0,
        parameters=sum(math.prod(tensor.shape) for tensor in file.tensors),
        tensors=len(file.tensors),
        split_count=_number(keys, SPLIT_COUNT) or 0,
        split_tensors=_number(keys, SPLIT_TENSORS),
        decoder_hash=_text(keys, DECODER_HASH_KEY),
    )


def _kind(file: GgufFile, architecture: str | None) -> FileKind:
    keys = file.metadata
    kind = _text(keys, "general.type")
    scaled = any(key.startswith(SCALE_KEY) for key in keys)
    if FORMAT_KEY in keys or kind == "prefiller" or scaled:
        return "prefiller"
    if architecture == "clip" or kind in ("mmproj", "projector"):
        return "projector"
    if kind in ("adapter", "imatrix") or "imatrix" in file.path.name.lower():
        return "other"
    if looks_like_projector(file.path.name):
        return "projector"
    if architecture in [method.value for method in Method]:
        return "drafter"
    if _number(keys, f"{architecture}.block_count"):
        return "decoder"
    # Later parts of a split model say nothing of what it is; the first one does.
    return "decoder" if _number(keys, SPLIT_COUNT) else "other"


def _quantisation(file: GgufFile, kind: FileKind) -> str | None:
    """A prefiller's is the one of the decoder that it is for: its own is always NVFP4."""
    own = quantisation_in(part_of(file.path.name).name)
    if kind != "prefiller":
        return own or _file_type(file.metadata)
    decoders = _text(file.metadata, DECODER_QUANTISATION_KEY)
    own = None if own == "NVFP4" else own
    return decoders or own or quantisation_in(file.path.parent.name)


def _text(keys: Mapping[str, Value], key: str) -> str | None:
    value = keys.get(key)
    return value if isinstance(value, str) and value else None


def _number(keys: Mapping[str, Value], key: str) -> int | None:
    value = keys.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _file_type(keys: Mapping[str, Value]) -> str | None:
    number = _number(keys, "general.file_type")
    if number is None or number not in {kind.value for kind in LlamaFileType}:
        return None
    return quantisation_in(LlamaFileType(number).name.removeprefix("MOSTLY_"))

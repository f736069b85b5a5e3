"""Decides whether a file may be handed to the library, which aborts the process on many bad
ones.

    model = validated_model(path)        # raises a GgufError, or the file is well-formed
    if not is_checked(model): ...        # then try it in a child process first (rehearsal.py)
"""

from __future__ import annotations

import math
from pathlib import Path

from engine.gguf import tokenizer_check
from engine.gguf.architectures import (
    CHECKED,
    LINEAR_TYPES,
    MAX_BLOCKS,
    MAX_CONTEXT,
    MAX_WIDTH,
    USABLE_TYPES,
    Expected,
    expected_tensors,
)
from engine.gguf.errors import (
    BadOffset,
    MissingTensor,
    UnexpectedTensor,
    UnusableType,
    WrongShape,
)
from engine.gguf.keys import Keys
from engine.gguf.reader import GgufFile, TensorInfo
from engine.gguf.splits import GgufModel, open_model

ARCHITECTURE_KEY = "general.architecture"
EMBEDDING = "token_embd.weight"


def architecture(model: GgufModel) -> str:
    return Keys(model).text(ARCHITECTURE_KEY)


def is_checked(model: GgufModel) -> bool:
    """Whether everything the library asserts about `model` has been checked here.

    Of other models (rarer architectures, mixtures of experts, rarer tokenizers) only the
    common part has been: they belong into a child process until they have run there.
    """
    name = architecture(model)
    tokenizer = Keys(model).text(tokenizer_check.MODEL_KEY)
    experts = model.metadata.get(f"{name}.expert_count", 0)
    return name in CHECKED and experts == 0 and tokenizer in tokenizer_check.CHECKED


def validated_model(path: Path) -> GgufModel:
    """The model that `path` (or the split set it is a part of) holds, ready for the library.

    Raises a `GgufError`: with the file's structure, its tokenizer, its hyperparameters or
    its tensors.
    """
    model = open_model(path)
    for file in model.files:
        _check_packing(file)
    name = architecture(model)
    keys = Keys(model, f"{name}.")
    keys.integer("block_count", 1, MAX_BLOCKS)
    width = keys.integer("embedding_length", 1, MAX_WIDTH)
    keys.integer("context_length", 1, MAX_CONTEXT)
    _check_rates(model, name)
    vocab = tokenizer_check.check_tokenizer(model)
    if is_checked(model):
        check_tensors(model, expected_tensors(name, keys, vocab))
    else:
        _check_embedding(model, width, vocab)
    return model


def _check_packing(file: GgufFile) -> None:
    """The library wants tensors in the table's order, without gaps."""
    position = 0
    for tensor in file.tensors:
        if tensor.offset != position:
            raise BadOffset(file.path, tensor=tensor.name, offset=tensor.offset, expected=position)
        position += tensor.nbytes + -tensor.nbytes % file.alignment


def _check_rates(model: GgufModel, name: str) -> None:
    for key, value in model.metadata.items():
        if isinstance(value, float) and key.startswith(f"{name}.") and not math.isfinite(value):
            raise Keys(model).refuse(key, "a finite number")


def check_tensors(model: GgufModel, expected: dict[str, Expected]) -> None:
    """Raises a GgufError unless `model` holds these, as they are expected, and no others."""
    for name, wanted in expected.items():
        tensor = model.by_name.get(name)
        if tensor is not None:
            _check_tensor(tensor, wanted)
        elif wanted.required:
            raise MissingTensor(model.path, tensor=name)
    for tensor in model.tensors:
        if tensor.name not in expected:
            raise UnexpectedTensor(
                tensor.path, tensor=tensor.name, architecture=architecture(model)
            )


def _check_tensor(tensor: TensorInfo, wanted: Expected) -> None:
    if _trimmed(tensor.shape) != _trimmed(wanted.shape):
        raise WrongShape(
            tensor.path,
            tensor=tensor.name,
            shape=list(tensor.shape),
            expected=list(wanted.shape),
        )
    if tensor.type not in USABLE_TYPES[wanted.role]:
        raise UnusableType(tensor.path, tensor=tensor.name, type=tensor.type.name)


def _check_embedding(model: GgufModel, width: int, vocab: int) -> None:
    tensor = model.by_name.get(EMBEDDING)
    if tensor is None:  # some borrow another model's
        return
    if _trimmed(tensor.shape) != _trimmed((width, vocab)):
        raise WrongShape(
            tensor.path, tensor=EMBEDDING, shape=list(tensor.shape), expected=[width, vocab]
        )
    if tensor.type not in LINEAR_TYPES:
        raise UnusableType(tensor.path, tensor=EMBEDDING, type=tensor.type.name)


def _trimmed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Without trailing ones: they say nothing."""
    while shape and shape[-1] == 1:
        shape = shape[:-1]
    return shape

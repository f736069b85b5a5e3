"""Spoils GGUF files: changes that keep them well-formed, and changes of their bytes.

A `random.Random` drives every change, so a seed names a file.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from random import Random

import gguf

from engine.gguf.types import GgmlType, ValueType
from tests.support.gguf_bytes import GgufBytes, Tensor, Value, array, f32, flag, text, u32

_NUMBERS = (0, 1, 2, 3, 4, 5, 7, 8, 16, 31, 32, 33, 64, 127, 512, 513, 1024, 65536, 1 << 24)
_EXTREMES = ((1 << 31) - 1, 1 << 31, (1 << 32) - 1)
_FLOATS = (0.0, 1.0, -1.0, 1e-6, 1e30, -1e30, math.inf, -math.inf, math.nan)
_SUFFIXES = ("weight", "weight", "bias", "scale", "input_scale")
_TOKENIZERS = ("llama", "gpt2", "bert", "t5", "rwkv", "test", "plamo2", "gemma4", "none", "x")


def mutated(model: GgufBytes, random: Random, changes: int = 1) -> GgufBytes:
    """A copy of `model` with some of its parts changed; its sizes and offsets still agree."""
    copy = deepcopy(model)
    for _ in range(changes):
        random.choice(CHANGES)(copy, random)
    return copy


def spoiled(content: bytes, random: Random, header: int) -> bytes:
    """`content` with bits flipped, a run overwritten or copied elsewhere, or its end missing;
    mostly within its first `header` bytes."""
    out = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 8))):
        place = random.randrange(min(header, len(out)))
        kind = random.randrange(5)
        if kind == 0:
            out[place] ^= 1 << random.randrange(8)
        elif kind == 1:
            out[place] = random.choice((0, 1, 255, random.randrange(256)))
        elif kind == 2:
            length = random.choice((1, 2, 4, 8, 40))
            value = random.choice((bytes(length), b"\xff" * length, random.randbytes(length)))
            out[place : place + length] = value[: max(0, len(out) - place)]
        elif kind == 3:
            source = random.randrange(min(header, len(out)))
            length = random.choice((4, 8, 24, 200))
            out[place : place + length] = out[source : source + length]
        elif random.random() < 0.3:
            del out[max(place, 1) :]
    return bytes(out)


def _number(random: Random) -> int:
    return random.choice(_NUMBERS if random.random() < 0.8 else _EXTREMES)


def _key(model: GgufBytes, random: Random) -> int:
    return random.randrange(len(model.metadata)) if model.metadata else -1


def _change_value(model: GgufBytes, random: Random) -> None:
    place = _key(model, random)
    key, value = model.metadata[place]
    if value.item is not None:
        changed = _changed_array(value, random)
    elif value.type == ValueType.UINT32:
        near = value.value + random.choice((-1, 1))
        number = random.choice((near, value.value * 2, value.value // 2, _number(random)))
        changed = u32(number % (1 << 32))
    elif value.type == ValueType.FLOAT32:
        changed = f32(random.choice(_FLOATS))
    elif value.type == ValueType.BOOL:
        changed = flag(not value.value)
    else:
        words = ("", "linear", "yarn", "longrope", "none", "x" * 300, *_TOKENIZERS)
        changed = text(random.choice(words))
    model.metadata[place] = (key, changed)


def _changed_array(value: Value, random: Random) -> Value:
    items = list(value.value)
    kind = random.randrange(6)
    strings = value.item == ValueType.STRING
    fresh = random.choice(("", " ", "a", "\0", "<0x41>", "<0", "Ā", "é b", "x" * 200))
    if kind == 0 and items:
        items[random.randrange(len(items))] = random.choice(items)
    elif kind == 1 and items:
        del items[random.randrange(len(items))]
    elif kind == 2:
        items.append(fresh if strings else random.choice((0, 1, 6, 100)))
    elif kind == 3 and items:
        items[random.randrange(len(items))] = (
            fresh if strings else random.choice((-1, 0, 1, 5, 99, 1 << 30))
        )
    elif kind == 4:
        items = []
    else:
        items = items[: random.randrange(len(items) + 1)]
    assert value.item is not None
    return array(ValueType(value.item), items)


def _change_value_type(model: GgufBytes, random: Random) -> None:
    place = _key(model, random)
    key, value = model.metadata[place]
    others = (
        Value(ValueType.UINT64, 4),
        Value(ValueType.INT32, -1),
        Value(ValueType.UINT16, 3),
        f32(2.0),
        text("4"),
        flag(True),
        array(ValueType.UINT32, [random.choice((0, 1, 4)) for _ in range(random.randrange(9))]),
        array(ValueType.FLOAT32, [0.5] * 4),
        array(ValueType.BOOL, [True] * 8),
    )
    del value
    model.metadata[place] = (key, random.choice(others))


def _delete_key(model: GgufBytes, random: Random) -> None:
    del model.metadata[_key(model, random)]


def _set(model: GgufBytes, key: str, value: Value) -> None:
    model.metadata = [pair for pair in model.metadata if pair[0] != key]
    model.metadata.append((key, value))


def _architecture(model: GgufBytes) -> str:
    for key, value in model.metadata:
        if key == "general.architecture" and isinstance(value.value, str):
            return value.value
    return "llama"


def _known_keys() -> list[str]:
    keys: list[str] = []
    for group in vars(gguf.Keys).values():
        if isinstance(group, type):
            keys += [value for value in vars(group).values() if isinstance(value, str)]
    return [key for key in keys if "." in key]


_KNOWN_KEYS = _known_keys()


def _add_known_key(model: GgufBytes, random: Random) -> None:
    key = random.choice(_KNOWN_KEYS).replace("{arch}", _architecture(model))
    values = (
        u32(_number(random)),
        u32(_number(random)),
        f32(random.choice(_FLOATS)),
        flag(random.random() < 0.5),
        text(random.choice(("yarn", "linear", "longrope", "none", "x", "{{ x }}"))),
        array(ValueType.UINT32, [_number(random) for _ in range(random.choice((1, 4, 8)))]),
        array(ValueType.INT32, [random.choice((-1, 0, 1, 8)) for _ in range(4)]),
        array(ValueType.STRING, ["a", "b"]),
    )
    _set(model, key, random.choice(values))


def _sized(name: str, shape: tuple[int, ...], type_: GgmlType, random: Random) -> Tensor | None:
    elements = math.prod(shape)
    row = shape[0] if shape else 1
    if row % type_.block.elements or elements > 1 << 20:
        return None
    nbytes = elements // type_.block.elements * type_.block.nbytes
    return Tensor(name, shape, type_, random.randbytes(nbytes))


def _change_tensor(model: GgufBytes, random: Random) -> None:
    if not model.tensors:
        return
    place = random.randrange(len(model.tensors))
    tensor = model.tensors[place]
    shape = list(tensor.shape)
    kind = random.randrange(5)
    type_ = GgmlType(tensor.type)
    if kind <= 1:
        type_ = random.choice(list(GgmlType))
    elif kind == 2 and shape:
        axis = random.randrange(len(shape))
        shape[axis] = random.choice((1, shape[axis] + 1, shape[axis] * 2, max(1, shape[axis] // 2)))
    elif kind == 3:
        shape.reverse()
    else:
        shape.append(random.choice((1, 2)))
    changed = _sized(str(tensor.name), tuple(shape[:4]), type_, random)
    if changed is not None:
        model.tensors[place] = changed


def _delete_tensor(model: GgufBytes, random: Random) -> None:
    if model.tensors:
        del model.tensors[random.randrange(len(model.tensors))]


def _rename_tensor(model: GgufBytes, random: Random) -> None:
    if model.tensors:
        tensor = random.choice(model.tensors)
        name = _known_tensor(random)
        if all(other.name != name for other in model.tensors):
            tensor.name = name


def _known_tensor(random: Random) -> str:
    name = random.choice(list(gguf.TENSOR_NAMES.values()))
    return f"{name.format(bid=random.randrange(4), xid=0)}.{random.choice(_SUFFIXES)}"


def _add_known_tensor(model: GgufBytes, random: Random) -> None:
    name = _known_tensor(random)
    if model.tensors and random.random() < 0.7:  # an optional partner of one that is there
        base = str(random.choice(model.tensors).name).rpartition(".")[0]
        name = f"{base}.{random.choice(_SUFFIXES)}"
    sizes = (1, 4, 16, 32, 64, 128, 256, 288)
    shape = tuple(random.choice(sizes) for _ in range(random.choice((1, 1, 2))))
    type_ = random.choice((GgmlType.F32, GgmlType.F32, *GgmlType))
    tensor = _sized(name, shape, type_, random)
    if tensor is not None and all(other.name != name for other in model.tensors):
        model.tensors.append(tensor)


def _swap_architecture(model: GgufBytes, random: Random) -> None:
    old = _architecture(model)
    new = random.choice(list(gguf.MODEL_ARCH_NAMES.values()))
    model.metadata = [
        (str(key).replace(f"{old}.", f"{new}.", 1), value) for key, value in model.metadata
    ]
    _set(model, "general.architecture", text(new))


def _swap_tokenizer(model: GgufBytes, random: Random) -> None:
    _set(model, "tokenizer.ggml.model", text(random.choice(_TOKENIZERS)))
    if random.random() < 0.5:
        count = random.choice((1, 20, 288))
        words = [f"<0x{n:02X}>" if n < 256 else f"w{n}" for n in range(count)]
        _set(model, "tokenizer.ggml.tokens", array(ValueType.STRING, words))
    if random.random() < 0.5:
        _set(model, "tokenizer.ggml.add_bos_token", flag(True))


CHANGES: tuple[Callable[[GgufBytes, Random], None], ...] = (
    _change_value,
    _change_value,
    _change_value,
    _change_value_type,
    _delete_key,
    _add_known_key,
    _add_known_key,
    _change_tensor,
    _change_tensor,
    _delete_tensor,
    _rename_tensor,
    _add_known_tensor,
    _swap_architecture,
    _swap_tokenizer,
)

"""Names a decoder by what its weights are, wherever its file lies and whatever it is called.

The hash covers, for each tensor in order of name: its name, type, shape, and `SAMPLES` short
runs of its bytes, evenly spread from its first to its last. Metadata, the order of tensors,
their offsets and the split into parts do not count, so an edited chat template or a merged
file keeps its pairing. Other weights of the same shapes and types are told apart by the
samples; a single changed byte between them is not, and need not be: the hash pairs files,
it does not guard them. Reading takes one seek a sample, so it is fast for files of any size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import BinaryIO

from engine.gguf.errors import Truncated, Unreadable
from engine.gguf.reader import TensorInfo
from engine.gguf.splits import GgufModel

SAMPLES = 4
SAMPLE_BYTES = 64
_DOMAIN = b"twofold decoder 1\n"


def decoder_hash(model: GgufModel) -> str:
    """64 hexadecimal digits. Raises `Unreadable` or `Truncated` if the file changed meanwhile."""
    rows: dict[str, bytes] = {}
    for file in model.files:
        try:
            with file.path.open("rb") as content:
                for tensor in sorted(file.tensors, key=lambda one: one.offset):
                    rows[tensor.name] = _row(tensor, content)
        except OSError as error:
            raise Unreadable(file.path, reason=error.strerror or str(error)) from error
    total = hashlib.sha256(_DOMAIN)
    for name in sorted(rows):
        total.update(rows[name])
    return total.hexdigest()


def _row(tensor: TensorInfo, content: BinaryIO) -> bytes:
    shape = "x".join(map(str, tensor.shape))
    row = hashlib.sha256(f"{tensor.name}\n{int(tensor.type)}\n{shape}\n".encode())
    for start, length in _places(tensor.nbytes):
        content.seek(tensor.absolute_offset + start)
        sample = content.read(length)
        if len(sample) != length:
            end = tensor.absolute_offset + tensor.nbytes
            size = content.seek(0, 2)
            raise Truncated(tensor.path, what=f"tensor {tensor.name}", needed=end, size=size)
        row.update(sample)
    return row.digest()


def _places(nbytes: int) -> Iterator[tuple[int, int]]:
    if nbytes <= SAMPLES * SAMPLE_BYTES:
        yield 0, nbytes
        return
    last = nbytes - SAMPLE_BYTES
    for number in range(SAMPLES):
        yield last * number // (SAMPLES - 1), SAMPLE_BYTES

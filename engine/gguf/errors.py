"""The ways in which a GGUF file, or a set of them, can be refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.errors import TwofoldError


class GgufError(TwofoldError):
    """A refused file; `path` names it, the rest of the data says what is wrong with it."""

    code = "gguf.invalid"

    def __init__(self, path: Path, **data: Any) -> None:
        super().__init__(path=str(path), **data)


class Unreadable(GgufError):
    """`reason`: the system's words."""

    code = "gguf.unreadable"


class NotGguf(GgufError):
    code = "gguf.not_gguf"


class WrongVersion(GgufError):
    """`version` of the format: 2 and 3 are read."""

    code = "gguf.version"


class WrongByteOrder(GgufError):
    code = "gguf.byte_order"


class Truncated(GgufError):
    """`what` ends at byte `needed`; the file has `size` bytes."""

    code = "gguf.truncated"


class TooMany(GgufError):
    """`count` of `what` is over the `limit`."""

    code = "gguf.too_many"


class NotUtf8(GgufError):
    """`what` is a string that is not UTF-8."""

    code = "gguf.not_utf8"


class BadName(GgufError):
    """`kind` (key or tensor) has a `name` that is empty, too long, or holds a NUL."""

    code = "gguf.bad_name"


class BadValueType(GgufError):
    """`key` has a value of an unknown `type`, or an array of arrays."""

    code = "gguf.value_type"


class Duplicate(GgufError):
    """`kind` (key or tensor) `name` appears twice."""

    code = "gguf.duplicate"


class BadAlignment(GgufError):
    code = "gguf.alignment"


class BadDimensions(GgufError):
    """`tensor` has a `shape` that no tensor can have."""

    code = "gguf.dimensions"


class BadTensorType(GgufError):
    """`tensor` has a `type` that ggml does not have, or not in files."""

    code = "gguf.tensor_type"


class BadRow(GgufError):
    """`tensor`'s rows of `row` values are not whole blocks of `block` values of its `type`."""

    code = "gguf.row"


class BadOffset(GgufError):
    """`tensor` starts at `offset`, which is not where the layout puts it (`expected`)."""

    code = "gguf.offset"


class Overlap(GgufError):
    """`tensor` and `other` share bytes."""

    code = "gguf.overlap"


class MissingKey(GgufError):
    code = "gguf.missing_key"


class BadKey(GgufError):
    """`key` has a `value` that is not `expected`."""

    code = "gguf.bad_key"


class MissingTensor(GgufError):
    code = "gguf.missing_tensor"


class UnexpectedTensor(GgufError):
    """`tensor` is none that a model of its `architecture` has."""

    code = "gguf.unexpected_tensor"


class WrongShape(GgufError):
    """`tensor` has `shape`, the metadata calls for `expected`."""

    code = "gguf.shape"


class UnusableType(GgufError):
    """`tensor` has a `type` that the library cannot compute with there."""

    code = "gguf.unusable_type"


class DuplicateToken(GgufError):
    """`token` is the text of the tokens `first` and `second`."""

    code = "gguf.duplicate_token"


class LibraryRefused(GgufError):
    """The library said no; `reason` holds its words."""

    code = "gguf.library_refused"


class LibraryCrashed(GgufError):
    """The library died, in a child process, of this file; `reason` holds its last words."""

    code = "gguf.library_crashed"


class SplitMissing(GgufError):
    """Parts of a split model that are not there: `missing` lists their names."""

    code = "gguf.split_missing"


class SplitMixed(GgufError):
    """`part` does not belong to the set: its `key` is `value` instead of `expected`."""

    code = "gguf.split_mixed"

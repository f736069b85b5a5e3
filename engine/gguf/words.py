"""Sentences for refused GGUF files."""

from __future__ import annotations

_AGAIN = "Download it again, or from another source."
_REFUSED = "The file is damaged or was made wrong, so it was not opened. " + _AGAIN

SENTENCES: dict[str, str] = {
    "gguf.invalid": "{path} is not a valid GGUF file. " + _AGAIN,
    "gguf.unreadable": "{path} cannot be read: {reason}. Check the file and its permissions.",
    "gguf.not_gguf": "{path} holds no model in the GGUF format. Choose another file, or "
    "download it again.",
    "gguf.version": "{path} is a GGUF file of version {version}, and only versions 2 and 3 can be "
    "read. Download a newer conversion of the model.",
    "gguf.byte_order": "{path} is a big-endian GGUF file, which this machine cannot use. "
    "Download the little-endian conversion.",
    "gguf.truncated": "{path} is incomplete: its {what} ends at byte {needed}, and the file has "
    "{size} bytes. Download it again.",
    "gguf.too_many": "{path} claims {count} {what}, more than any model has ({limit}). " + _REFUSED,
    "gguf.not_utf8": "{path} has text that is not UTF-8 in its {what}. " + _REFUSED,
    "gguf.bad_name": "{path} has a {kind} with the impossible name {name!r}. " + _REFUSED,
    "gguf.value_type": "{path} stores {key} with a type ({type}) that is not known. " + _REFUSED,
    "gguf.duplicate": "{path} has the {kind} {name!r} twice. " + _REFUSED,
    "gguf.alignment": "{path} asks for an alignment of {alignment}, which is not a power of two "
    "up to {limit}. " + _REFUSED,
    "gguf.dimensions": "{path} has a tensor {tensor!r} of the impossible shape {shape}. "
    + _REFUSED,
    "gguf.tensor_type": "{path} has a tensor {tensor!r} of type {type}, which the library does "
    "not know. Update the app, or download another quantisation.",
    "gguf.row": "{path} has a tensor {tensor!r} whose rows of {row} values are not whole blocks "
    "of {block} ({type}). " + _REFUSED,
    "gguf.offset": "{path} places the tensor {tensor!r} at {offset} instead of {expected}. "
    + _REFUSED,
    "gguf.overlap": "{path} gives the tensors {tensor!r} and {other!r} the same bytes. " + _REFUSED,
    "gguf.missing_key": "{path} does not say {key}, which every model of its kind must. It may be "
    "a part of a model, or not a model at all. Choose the model's main file.",
    "gguf.bad_key": "{path} says {key} is {value}, where {expected} is needed. " + _REFUSED,
    "gguf.missing_tensor": "{path} lacks the tensor {tensor!r}, without which the model cannot "
    "run. " + _AGAIN,
    "gguf.unexpected_tensor": "{path} has a tensor {tensor!r}, which no {architecture} model has. "
    + _REFUSED,
    "gguf.shape": "{path} has a tensor {tensor!r} of shape {shape}, where its own metadata calls "
    "for {expected}. " + _REFUSED,
    "gguf.unusable_type": "{path} stores {tensor!r} as {type}, which cannot be computed with "
    "there. Download another quantisation.",
    "gguf.duplicate_token": "{path} has the token {token!r} twice ({first} and {second}). "
    + _REFUSED,
    "gguf.library_refused": "{path} could not be loaded: {reason}. It may need a newer version of "
    "the app; otherwise download another conversion of the model.",
    "gguf.library_crashed": "{path} makes the inference library crash ({reason}), so it was not "
    "opened. Download another conversion of the model.",
    "gguf.split_missing": "{path} is one part of a model, and other parts are missing: {missing}. "
    "Put all parts into one folder.",
    "gguf.split_mixed": "{path} and its neighbours do not form one model: in {part}, {key} is "
    "{value} instead of {expected}. Download all parts again.",
}

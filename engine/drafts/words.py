"""Sentences for drafters that cannot be read or converted."""

from __future__ import annotations

_AGAIN = "Download it again from its publisher."

SENTENCES: dict[str, str] = {
    "draft.unreadable": "{path} cannot be read: {reason}. Check the file and its permissions.",
    "draft.no_checkpoint": "There is no drafter to convert at {path}. Name a .safetensors file "
    "with config.json beside it, or the folder that holds both.",
    "draft.bad_safetensors": "{path} is not a well-formed safetensors file: {reason}. " + _AGAIN,
    "draft.unknown_layout": "{path} holds tensors such as {tensor}, the layout of no drafter that "
    "can be converted. Medusa, EAGLE-1, EAGLE-3 and DFlash can be.",
    "draft.missing_tensor": "{path} lacks {tensor}, without which it cannot draft. " + _AGAIN,
    "draft.unexpected_tensor": "{path} holds {tensor}, which a {method} drafter does not have, so "
    "the result would draft something else. Use a checkpoint of the published layout.",
    "draft.shape": "{path} has {tensor} in the shape {shape} where its configuration calls for "
    "{expected}. " + _AGAIN,
    "draft.type": "{path} stores {tensor} as {type}, which cannot be converted. Use a checkpoint "
    "in F32, F16 or BF16.",
    "draft.not_finite": "{path} holds values in {tensor} that are not numbers. " + _AGAIN,
    "draft.config": "{path} says {key} is {value}, and {expected} is needed. " + _AGAIN,
    "draft.unsupported": "{path} asks for {what}, which is not converted yet. Use another drafter "
    "for this model.",
    "draft.not_a_draft": "{path} is no drafter. Choose a Medusa, EAGLE or DFlash file in GGUF; "
    "`twofold draft convert` makes one from a published checkpoint.",
    "draft.pairing_refused": "{draft} cannot draft for {target}: {reasons}. Choose the drafter "
    "made for this model.",
    "draft.not_run": "{path} is a {method} drafter, which cannot be run yet. Choose an EAGLE-3 "
    "drafter or a smaller model with the same tokens.",
    "draft.features": "The drafter reads features {theirs} wide, and the model's are {ours}. "
    "Choose the drafter made for this model.",
    "draft.vocabulary": "The drafter knows {theirs} tokens and the model {ours}, so it cannot "
    "draft for it. Choose a drafter with the model's own vocabulary.",
    "draft.needs_target": "A {method} drafter carries the tokens of the model it drafts for. Name "
    "that model with --target.",
    "draft.wrong_target": "{path} was trained for another model: its {what} is {found}, and that "
    "of {target} is {expected}. Choose the drafter made for this model.",
    "draft.tokens": "{path} drafts tokens that the model does not have: {tensor} names ids outside "
    "its {vocab} tokens, or one twice. " + _AGAIN,
}

"""Sentences for prefillers that cannot be built, read or paired."""

from __future__ import annotations

_AGAIN = "Download it again, or build one with `twofold prefiller build`."

SENTENCES: dict[str, str] = {
    "prefiller.mixture_of_experts": "{path} is a mixture of {experts} experts. Reading all of "
    "them for a prompt takes longer than computing it, so a prefiller would not help. Use the "
    "model without one.",
    "prefiller.nothing_to_quantise": "{path} has no linear weight whose rows are multiples of 64 "
    "values, so NVFP4 cannot hold any. Use the model without a prefiller.",
    "prefiller.source_mismatch": "{source} is not the same model as {decoder}: {tensor} is {found} "
    "there, and {expected} in the decoder. Give a better file of the same model as the source.",
    "prefiller.unusable_weights": "{tensor} in {path} holds values that are not numbers, or is of "
    "a type that cannot be converted. Use another file of the same model as the source.",
    "prefiller.source_shrank": "{path} became shorter while {tensor} was read, so the build "
    "stopped and left nothing behind. Make sure that nothing writes to the file, then start again.",
    "prefiller.output_exists": "{path} exists already and was left as it is. Give another name, "
    "or --force to replace it.",
    "prefiller.output_is_input": "{path} is itself a file that the prefiller is built from. Give "
    "another name for the output.",
    "prefiller.no_space": "{path} needs {needed:size}, and its disk has {free:size} free. Free "
    "some space, or give a name on another disk.",
    "prefiller.write_failed": "{path} could not be written: {reason}. Nothing was left behind. "
    "Check the disk and the folder's permissions.",
    "prefiller.cancelled": "Building {path} was stopped; nothing was left behind.",
    "prefiller.not_found": "There is no prefiller at {path}. Check the name: it must be a .gguf "
    "file, or a folder of them.",
    "prefiller.several_files": "{path} holds more than one prefiller ({files}). Name the one to "
    "use.",
    "prefiller.parts_missing": "{path} is a prefiller in {count} parts, and some are missing: "
    "{missing}. Download them into the same folder.",
    "prefiller.wrong_type": "{path} stores {tensor} as {type}, and a prefiller holds NVFP4 only. "
    "Build one from it with `twofold prefiller build`.",
    "prefiller.wrong_dimensions": "{path} has {tensor} in the shape {shape}, which is no matrix. "
    + _AGAIN,
    "prefiller.no_scale": "{path} has no scale for {tensor}, without which its weights mean "
    "nothing. " + _AGAIN,
    "prefiller.bad_scale": "{path} gives {tensor} the scale {scale}, which is not a number above "
    "0. " + _AGAIN,
    "prefiller.two_scales": "{path} gives {tensor} two scales, in a key and in a tensor. " + _AGAIN,
    "prefiller.whole_model": "{path} is a model that writes answers, not a prefiller. Choose the "
    "prefiller made for it, or build one with `twofold prefiller build`.",
    "prefiller.extra_tensor": "{path} holds {tensor}, which does not belong in a prefiller. "
    + _AGAIN,
    "prefiller.duplicate_tensor": "{path} and {other} both hold {tensor}. Keep the parts of one "
    "prefiller in a folder of their own.",
    "prefiller.missing_tensors": "{path} has {found} tensors where it says {expected}. " + _AGAIN,
    "prefiller.mixed_parts": "The files in {path} belong to different prefillers: they disagree "
    "on {key} ({values}). Keep the parts of one prefiller in a folder of their own.",
    "prefiller.newer_format": "{path} was made by a newer Twofold (format {version}; up to "
    "{known} can be read). Update Twofold.",
    "prefiller.empty": "{path} holds no NVFP4 weight of a block, so it is no prefiller. Build one "
    "with `twofold prefiller build`.",
    "prefiller.context_too_small": "The model holds {tokens} tokens of the text, and measuring "
    "needs {needed}. Check the pairing without measuring.",
    "prefiller.measurement_stopped": "The measurement was stopped.",
    "prefiller.pairing_refused": "The prefiller {prefiller} is not known to belong to {decoder}: "
    "{reasons}. A wrong pairing reads fluently and answers worse. Use the prefiller made for this "
    "decoder, or --force if you are sure.",
    "prefiller.pairing_impossible": "The prefiller {prefiller} cannot be used with {decoder}: "
    "{reasons}. Use the prefiller made for this decoder.",
}

"""Sentences for measurements that cannot be made or finished."""

from __future__ import annotations

SENTENCES: dict[str, str] = {
    "bench.stopped": "The measurement was stopped; nothing was written.",
    "bench.prompt_too_short": "Prompts of {tokens} tokens are always read by the decoder, so there "
    "is nothing to compare. Use {least} tokens or more.",
    "bench.unknown_shape": "There is no shape {arch} {size} to write. Choose one of: {known}.",
    "bench.unknown_type": "A decoder cannot be written in {type}. Choose one of: {known}.",
    "bench.no_nvfp4": "None of this model's weights are NVFP4, so Twofold does not choose the "
    "activations that meet them. Measure a GGUF of NVFP4.",
    "bench.library_failed": "The process that runs the library alone ended early: {reason}. There "
    "may be too little memory for two copies of the model; try a smaller one.",
}

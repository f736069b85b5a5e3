"""Sentences of a loaded model: why a path was taken, and what can go wrong with the library and
the disk beneath it."""

from __future__ import annotations

_AGAIN = "Read the message again, or choose the decoder's own weights as the path."
_UNSUITED = (
    "Prompts can only be read with this model's own weights. Use the model without a prefiller."
)

SENTENCES: dict[str, str] = {
    "cancelled": "Stopped.",
    "context.failed": (
        "A context of {n_ctx} tokens could not be set up ({why}), so the model is not usable. "
        "Choose a shorter context, or close other programs to free memory."
    ),
    "device.memory": (
        "{device} has too little memory for this load: {wanted} more were wanted, {free} were "
        "free, and other programs hold {holders}. By the library's own count it fits with {layers} "
        "layers there, a context of {context} tokens and passes of {micro_batch} tokens."
    ),
    "device.none": (
        "{layers} layers cannot be put on a GPU: no GPU backend is in use here. "
        "`./twofold backend list` says why, or load the model without them."
    ),
    "device.unknown": (
        "There is no device {device} here. `./twofold backend list` shows those that there are."
    ),
    "device.unsupported": (
        "{device} cannot multiply NVFP4 weights ({tensor}), so prompts can only be read with this "
        "model's own weights there. Use the model without a prefiller, or without that device."
    ),
    "disk.cancelled": "Reading the prefiller was stopped.",
    "disk.file_changed": (
        "{path} was changed or replaced while it was in use, so what was read from it is not "
        "trusted. Load the model again."
    ),
    "disk.open_failed": (
        "{path} cannot be opened: {reason}. Check that the drive is connected and that you may "
        "read the file."
    ),
    "cpu.no_variant": (
        "No part of the library in {folder} can run on this processor, so no model can run. "
        "Install Twofold again; it needs a 64-bit Intel or AMD processor."
    ),
    "cpu.unfit_variant": (
        "TWOFOLD_CPU_VARIANT is {name}, which needs instructions that this processor lacks, so no "
        "model can run. Unset it, or use one of {fit}."
    ),
    "cpu.unknown_variant": (
        "TWOFOLD_CPU_VARIANT is {name}, and there is no such variant of the library, so no model "
        "can run. Unset it, or use one of {known}."
    ),
    "disk.read_failed": (
        "{path} cannot be read at byte {offset}: {reason}. The drive may be failing or "
        "disconnected. " + _AGAIN
    ),
    "disk.short_read": (
        "{path} ended early: {wanted} bytes were expected at byte {offset} and {got} came. The "
        "file is not whole. Download or build it again."
    ),
    "disk.unaligned": "Internal error: a read of {path} at byte {offset} was not aligned. "
    "Please report this.",
    "library.missing": (
        "The library that runs models (llama-cpp-python {wanted}) is not installed. Run ./twofold "
        "again: it sets everything up."
    ),
    "library.wrong_version": (
        "The library that runs models is version {found}, and this Twofold works only with "
        "{wanted}. Run ./twofold again: it installs the right one."
    ),
    "memory.no_slot": (
        "The decoder's weights on {device} leave no room for {slots} buffers of {wanted:size}. "
        "Choose fewer slots, put more of the model there, or allow slots of their own."
    ),
    "memory.out": (
        "There was not enough memory: {wanted:size} could not be had. Close other programs, "
        "choose a shorter context, or stream the prefiller instead of keeping it in memory."
    ),
    "model.load_cancelled": "Loading {path} was stopped.",
    "model.load_failed": (
        "{path} could not be loaded: {why}. The file may be damaged, or of a kind that this "
        "version does not know. Try another file of this model."
    ),
    "path.no_prefiller": (
        "The path {path} needs a prefiller, and none was given. Name one with --prefiller, build "
        "one with `twofold prefiller build`, or choose the path auto or decoder."
    ),
    "path.unavailable": (
        "The path {path} would not be faster here, so it is not offered. Choose another path."
    ),
    "phase.block_order": (
        "This architecture reads {tensor} out of order, so its blocks cannot be streamed. "
        + _UNSUITED
    ),
    "phase.decoder_weight_used": (
        "This architecture would still read the decoder's {tensor} during prefill. " + _UNSUITED
    ),
    "phase.incomplete": (
        "The prompt's computation ended before every block was used, so its result was thrown "
        "away. " + _AGAIN
    ),
    "phase.layout": (
        "The library's inner structures ({architecture}) are not those that this Twofold was built "
        "for. Run ./twofold again: it rebuilds what is needed."
    ),
    "phase.no_slot": (
        "The architecture {architecture} has no place for a prefiller's {tensor}. " + _UNSUITED
    ),
    "phase.not_a_product": (
        "This architecture uses {tensor} in a way that a prefiller cannot serve. " + _UNSUITED
    ),
    "phase.scale_not_applied": (
        "This architecture scales something else than products with {tensor}, so a prefiller would "
        "compute nonsense. " + _UNSUITED
    ),
    "phase.shape": (
        "The prefiller's {tensor} has another shape than the decoder's, so they do not belong "
        "together. Choose the prefiller that was made for this decoder."
    ),
    "phase.unknown_tensor": (
        "The decoder has no {tensor}, so this prefiller does not belong to it. Choose the "
        "prefiller that was made for this decoder."
    ),
    "route.autocast_faster": (
        "There is no prefiller, and multiplying the decoder's weights as BF16 is faster here."
    ),
    "route.best_answers": (
        "The prefiller makes this decoder's answers better, and best answers is what you chose."
    ),
    "route.chosen": "You chose the path {path}.",
    "route.decoder_faster": (
        "{tokens} tokens are expected to take {seconds:.1f} s this way and {other_s:.1f} s with "
        "the prefiller."
    ),
    "route.faster": (
        "{tokens} tokens are expected to take {seconds:.1f} s this way and {decoder_s:.1f} s with "
        "the decoder's own weights."
    ),
    "route.no_prefiller": "There is no prefiller.",
    "route.speed_unknown": "The prefiller's speed on this machine is not known yet.",
    "route.too_short": "{tokens} tokens are too few for prefill weights (from {least}).",
    "session.context_full": (
        "The context is full: it holds {n_ctx} tokens, {cached} are in use and {tokens} more do "
        "not fit. Start a new chat, or load the model with a larger context."
    ),
    "session.evaluation_failed": (
        "The library could not compute this ({why}, result {result}). " + _AGAIN
    ),
    "session.nothing_read": "Internal error: an answer was asked for before a prompt was read. "
    "Please report this.",
    "session.wrong_thread": "Internal error: a model was used by a thread that does not own it. "
    "Please report this.",
    "stream.cancelled": "Reading the prefiller was stopped.",
    "stream.incomplete": "Internal error: {got} of {expected} blocks were used. Please report "
    "this.",
    "stream.order": "Internal error: block {got} was asked for, and {expected} was next. "
    "Please report this.",
    "attention.wrong_shape": "Attention of {tokens} tokens over {cached} with such heads cannot be "
    "measured. Give at least as many cached tokens as tokens, and heads that are a multiple of "
    "the key heads.",
    "weights.bad_scale": "Internal error: {scale} cannot scale a weight. Please report this.",
    "weights.not_finite": "A weight holds values that are not numbers, so it cannot be converted. "
    "Use another file of the same model.",
    "weights.unknown_type": "Weights of type {type} cannot be converted. Use another file of the "
    "same model.",
    "weights.wrong_size": "Internal error: {count} values were expected in a weight of another "
    "size. Please report this.",
}

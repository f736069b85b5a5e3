"""The sentences of a plan's reasons, warnings and errors."""

from __future__ import annotations

from typing import Any

from engine.api.plan import Remark
from engine.api.sentences import fill, memory

# Errors.
SENTENCES: dict[str, str] = {
    "plan.unknown_device": "There is no device {device}; choose one of {known}.",
    "plan.not_written": "The plan could not be written to {path}: {reason}. Choose another file.",
}

# One entry a code; `{name}` takes the remark's data, `{size}` its `gib` in the fitting unit.
REMARKS: dict[str, str] = {
    # reasons
    "plan.you_chose": "You chose the path {mode}.",
    "plan.no_prefiller": (
        "There is no prefiller, so prompts are read with the decoder's own weights, re-encoded on "
        "the fly (autocast) where that is faster. One built for this decoder would take {size} on "
        "disk."
    ),
    "plan.resident_fits": (
        "The whole prefiller ({size}) fits into free memory beside the decoder, so it "
        "stays there and nothing is read from disk while a prompt is read."
    ),
    "plan.mixed_tiers": (
        "Of {blocks} blocks of the prefiller, {device} stay in the memory of {name}, {host} in the "
        "host's memory, and {disk} come from the disk in each pass."
    ),
    "plan.partly_streamed": (
        "Of {blocks} blocks of the prefiller, {device} stay in the memory of {name} and {disk} "
        "come from the disk in each pass."
    ),
    "plan.all_streamed": (
        "No block of the prefiller stays in memory: all {blocks} come from the disk in each "
        "pass ({size}, {seconds:.2g} s)."
    ),
    "plan.best_answers": (
        "The decoder has {bits:.1f} bits a weight: reading with the prefiller makes its answers "
        "better, so it is used for every prompt that is long enough."
    ),
    "plan.faster_from": (
        "The prefiller reads prompts faster than the decoder's own weights from {tokens} tokens."
    ),
    "plan.always_faster": (
        "The prefiller reads prompts of every length faster than the decoder's own weights."
    ),
    "plan.decoder_is_faster": (
        "The decoder's own weights read prompts of every length up to {tokens} tokens at least as "
        "fast as the prefiller would, so the prefiller is left out."
    ),
    "plan.micro_batch": (
        "A pass reads up to {tokens} tokens: the best balance of fewer passes and memory left for "
        "resident blocks."
    ),
    "plan.carve_out": (
        "The {slots} slots lie inside {size} of decoder weights that are idle while a "
        "prompt is read, and take no memory of their own."
    ),
    # warnings
    "plan.mixture_of_experts": (
        "This decoder is a mixture of {experts} experts: loading a prefiller takes longer than "
        "it saves in computing, so none is used."
    ),
    "plan.no_quality_gain": (
        "The decoder has {bits:.1f} bits a weight. From three bits up a prefiller no longer makes "
        "answers better; it can only make reading faster."
    ),
    "plan.pairing_mismatch": (
        "The prefiller is not known to belong to this decoder ({reasons}). A wrong one answers "
        "worse without any sign of it, so it is not used; choose another or force the pairing."
    ),
    "plan.pairing_impossible": (
        "The prefiller does not fit the decoder's weights ({reasons}), so it cannot be used at "
        "all; choose the one that was made for this decoder."
    ),
    "plan.pairing_forced": (
        "The prefiller is not known to belong to this decoder ({reasons}), and is used because "
        "you said so. Expect worse answers if it does not."
    ),
    "plan.prefiller_assumed": (
        "There is no prefiller yet: the plan is for one built for this decoder."
    ),
    "plan.does_not_fit": (
        "The plan needs {needed_size} of the memory of {name}, margin included, and "
        "{free_size} are free. Close other programs, choose a shorter context or a smaller "
        "decoder, or expect loading to fail."
    ),
    "plan.decoder_partly_on_host": (
        "Only {device} of the decoder's {blocks} blocks fit into the memory of {name}; the rest "
        "stays in the host's memory, which makes answers slower."
    ),
    "plan.rates_guessed": (
        "Some rates of this machine are guesses ({rates}), so times may be far off. Run "
        "./twofold probe on it to measure them."
    ),
    "plan.unproven_path": (
        "The prefiller's speed on this machine has not been measured, so it is not used to save "
        "time. Run ./twofold probe on it to measure it."
    ),
    "plan.disk_unmeasured": (
        "The disk has not been measured; {gbps:.1f} GB/s are assumed. Run ./twofold probe."
    ),
    "plan.slow_disk": (
        "Reading the streamed blocks takes {seconds:.0f} s in each pass at {gbps:.2f} GB/s, which "
        "every prompt has to wait for. A faster disk or more free memory shortens it."
    ),
    "plan.slower_than_decoder": (
        "Most prompts below {tokens} tokens are read more slowly with the prefiller than without; "
        "choose the policy fastest if that matters more than the answers."
    ),
    "plan.always_slower_than_decoder": (
        "Prompts are read more slowly with the prefiller than without, at every length; choose "
        "the policy fastest if that matters more than the answers."
    ),
    "plan.context_beyond_training": (
        "The context of {context} tokens is longer than the {trained} that the model was trained "
        "for; answers about long prompts may be poor."
    ),
    "plan.memory_in_use": (
        "Other programs use {size} of the memory of {name}; closing them would leave more room."
    ),
}


def remark(code: str, **data: Any) -> Remark:
    sizes = {
        name.removesuffix("gib") + "size": memory(value * (1 << 30))
        for name, value in data.items()
        if name.endswith("gib")
    }
    facts = {**data, **sizes}
    return Remark(code=code, sentence=fill(REMARKS[code], facts), data=facts)

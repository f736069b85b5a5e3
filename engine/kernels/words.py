"""Sentences for the errors of the engine's own matrix kernels (native code)."""

from __future__ import annotations

SENTENCES: dict[str, str] = {
    "kernel.unknown": (
        "TWOFOLD_KERNEL asks for '{wanted}', which this processor cannot run. Set it to one of "
        "{usable}, or unset it: the fastest is chosen then."
    ),
    "kernel.unused": (
        "The kernel '{wanted}' did not multiply: it does not take weights of this type, or "
        "TWOFOLD_KERNEL=library turned Twofold's kernels off."
    ),
    "kernel.unknown_activations": (
        "TWOFOLD_ACTIVATIONS asks for '{wanted}', which is no way to round activations. Set it to "
        "bf16 or a4, or unset it: bf16 is used then."
    ),
    "kernel.unfit": (
        "The matrix kernel '{kernel}', which TWOFOLD_KERNEL asks for, does not work here: "
        "{reason}. Unset it: the fastest that works is chosen then."
    ),
    "kernel.no_hook": (
        "The model library has no place for Twofold's matrix kernels ({missing} is missing), so "
        "it is not the build that Twofold was made for. Run ./twofold setup to install that one, "
        "or set TWOFOLD_KERNEL=library to go without."
    ),
}

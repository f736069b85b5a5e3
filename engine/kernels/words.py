"""Sentences for the errors of the engine's own matrix kernels (native code)."""

from __future__ import annotations

SENTENCES: dict[str, str] = {
    "kernel.unknown": (
        "TWOFOLD_KERNEL asks for '{wanted}', which this processor cannot run. Set it to one of "
        "{usable}, or unset it: the fastest is chosen then."
    ),
    "kernel.no_hook": (
        "The model library has no place for Twofold's matrix kernels ({missing} is missing), so "
        "it is not the build that Twofold was made for. Run ./twofold setup to install that one, "
        "or set TWOFOLD_KERNEL=library to go without."
    ),
}

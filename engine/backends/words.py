"""Sentences about GPU backends."""

from __future__ import annotations

SENTENCES: dict[str, str] = {
    "backend.not_readable": "{path} cannot be read ({reason}), so no backend is installed.",
    "backend.not_a_library": (
        "{path} is no whole shared library for 64-bit Linux, so it is not installed: give a "
        "libggml file that ./twofold backend build made."
    ),
    "backend.wrong_machine": (
        "{path} is for another processor than this machine's {wanted}, so it is not installed: "
        "build it here with ./twofold backend build."
    ),
    "backend.not_stamped": (
        "{path} does not say which version of the model library it was built for, so it is not "
        "installed: give a file that ./twofold backend build made."
    ),
    "backend.wrong_version": (
        "{path} was built for the model library {found}, but this Twofold uses {wanted}, so it is "
        "not installed: build it anew with ./twofold backend build."
    ),
    "backend.not_found": (
        "No backend named {name} is installed: ./twofold backend list shows those that are."
    ),
    "backend.load_failed": (
        "The library could not open the backend {name} ({reason}), so the graphics card is not "
        "used: ./twofold backend list says more."
    ),
}

"""Sentences about GPU backends."""

from __future__ import annotations

from engine.api.backends import BackendInfo
from engine.api.sentences import fill

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
    "backend.is_carried": (
        "{name} is a part of this program and stays where it is: to leave it out, run ./twofold "
        "backend disable {name}."
    ),
    "backend.build_elsewhere": (
        "Backends are built from Twofold's sources: run ./twofold backend build {name} in a "
        "checkout, and install the file that it names with backend install."
    ),
}

# What the self-check may find; `{name}` and `{detail}` are the backend's.
REASONS: dict[str, str] = {
    "crashed": (
        "The self-check of {name} ended by itself ({detail}), so it is not used: update the "
        "graphics driver, then run ./twofold backend check {name}."
    ),
    "timeout": (
        "The self-check of {name} did not end ({detail}), so it is not used: update the graphics "
        "driver, then run ./twofold backend check {name}."
    ),
    "wrong_values": (
        "{name} computes wrongly ({detail}), so it is not used: update the graphics driver, then "
        "run ./twofold backend check {name}."
    ),
    "no_driver": (
        "No graphics driver was found for {name} (missing: {detail}), so it is not used: "
        "install the card's driver, then run ./twofold backend check {name}."
    ),
    "no_device": (
        "{name} found no device that it can use, so it is not used: check that the card is in "
        "place and its driver is installed, then run ./twofold backend check {name}."
    ),
    "not_loaded": (
        "{name} could not be opened ({detail}), so it is not used: build it anew with ./twofold "
        "backend build {name}."
    ),
}


def reason(info: BackendInfo) -> str:
    """Why the backend is not used, as a sentence; empty where the self-check found nothing."""
    if info.reason is None:
        return ""
    return fill(REASONS[info.reason], {"name": info.name, "detail": info.detail})

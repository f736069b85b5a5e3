"""What the program is called: `./twofold` in a checkout, `twofold` where it was installed."""

from __future__ import annotations

import sys
from collections.abc import Mapping

_IN_CHECKOUT, _INSTALLED = "./twofold", "twofold"
# After the code of a sentence: what takes its place in a package, where no set-up can be run.
PACKAGED = ".packaged"


def is_packaged() -> bool:
    """Whether the program is frozen into a folder of its own, without sources or set-up."""
    return bool(getattr(sys, "frozen", False))


def called(text: str) -> str:
    """`text`, which calls the program as in a checkout, with the name that it has here."""
    return text.replace(_IN_CHECKOUT, _INSTALLED) if is_packaged() else text


def sentence_for(code: str, sentences: Mapping[str, str]) -> str | None:
    """The sentence of `code` that holds here; None if there is none."""
    packaged = sentences.get(code + PACKAGED) if is_packaged() else None
    return packaged or sentences.get(code)

"""Reads quantisations and parts out of file names, as publishers write them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

# Wider than a prefiller's labels: publishers also name mixes, as UD-Q2_K_XL.
_LABEL = re.compile(
    r"(?<![A-Z0-9])(?:UD-)?(?:I?Q[1-8]_(?:K_(?:XXL|XL|L|M|S)|K|XXS|XS|NL|S|M|0|1)|TQ[12]_0"
    r"|MXFP4(?:_MOE)?|NVFP4|BF16|F16|F32)(?![A-Z0-9_])"
)
_PART = re.compile(r"(?P<name>.+)-(?P<no>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Part:
    """`name` of the whole, without suffix; a file that is no part is number 1 of 1."""

    name: str
    no: int
    count: int


def quantisation_in(text: str) -> str | None:
    """The last quantisation that a file's or folder's name carries."""
    found = _LABEL.findall(text.upper())
    return found[-1] if found else None


def without_quantisation(text: str) -> str:
    """What a model is called, whatever its quantisation."""
    return re.sub(_LABEL.pattern, "", text, flags=re.IGNORECASE).strip("-._ ")


def part_of(file_name: str) -> Part:
    match = _PART.fullmatch(file_name)
    if match is None or not 1 <= int(match["no"]) <= int(match["count"]):
        return Part(file_name.removesuffix(".gguf"), 1, 1)
    return Part(match["name"], int(match["no"]), int(match["count"]))


def label_of(path: str) -> str | None:
    """The quantisation of a file in a repo: by its own name, else by its folder's."""
    parts = PurePosixPath(path).parts
    own = quantisation_in(part_of(parts[-1]).name)
    return own or (quantisation_in(parts[-2]) if len(parts) > 1 else None)


def looks_like_projector(file_name: str) -> bool:
    return "mmproj" in file_name.lower()


def looks_like_prefiller(text: str) -> bool:
    return "prefiller" in text.lower()

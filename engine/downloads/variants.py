"""Sorts a repo's files into models: parts together, with their quantisation and kind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from engine.api.models import ModelKind, Variant, VariantFile
from engine.downloads.errors import NoVariant, VariantIncomplete, VariantNeeded
from engine.downloads.safe_names import folded, is_safe_path
from engine.library.labels import (
    label_of,
    looks_like_prefiller,
    looks_like_projector,
    part_of,
)

_SHOWN = 40
_SUFFIX = ".gguf"
# Lower is better to recommend among those that fit: good answers for their size.
_PREFERRED = ("Q4_K_M", "UD-Q4_K_XL", "Q4_K_S", "IQ4_XS", "Q4_0", "Q5_K_M", "Q8_0")


@dataclass(frozen=True, slots=True)
class Sorted:
    """`refused`: names that no honest repo has."""

    variants: tuple[Variant, ...]
    refused: tuple[str, ...]


def sort_files(repo: str, files: Iterable[VariantFile]) -> Sorted:
    """Smallest first within a kind. Of names that some systems cannot tell apart, none is taken."""
    refused: list[str] = []
    safe: dict[str, list[VariantFile]] = defaultdict(list)
    for file in files:
        if not file.path.lower().endswith(_SUFFIX) or "imatrix" in file.path.lower():
            continue
        if is_safe_path(file.path) and file.bytes >= 0:
            safe[folded(file.path)].append(file)
        else:
            refused.append(file.path)
    sets: dict[tuple[str, str, int], list[tuple[int, VariantFile]]] = defaultdict(list)
    for same in safe.values():
        if len(same) > 1:
            refused += [file.path for file in same]
            continue
        folder = str(PurePosixPath(same[0].path).parent)
        part = part_of(PurePosixPath(same[0].path).name)
        sets[folder, part.name, part.count].append((part.no, same[0]))
    variants = [_variant(repo, *key, parts) for key, parts in sets.items()]
    variants.sort(key=lambda one: (one.kind, one.bytes, one.name))
    return Sorted(tuple(variants), tuple(sorted(refused)))


def _variant(
    repo: str, folder: str, name: str, count: int, parts: list[tuple[int, VariantFile]]
) -> Variant:
    ordered = sorted(parts, key=lambda part: part[0])
    files = tuple(file for _, file in ordered)
    path = name if folder == "." else f"{folder}/{name}"
    kind: ModelKind = "decoder"
    if looks_like_projector(name):
        kind = "projector"
    elif looks_like_prefiller(repo) or looks_like_prefiller(path):
        kind = "prefiller"
    label = label_of(files[0].path)
    if kind == "prefiller" and folder != "." and label in (None, "NVFP4"):
        label = label_of(f"{folder}/x.gguf")
    return Variant(
        name=path,
        kind=kind,
        label=label,
        files=files,
        bytes=sum(file.bytes for file in files),
        complete=[no for no, _ in ordered] == list(range(1, count + 1)),
    )


def choose(repo: str, variants: Sequence[Variant], wanted: str | None) -> Variant:
    """The variant that was named: by quantisation, name, folder or file; the only one without.

    Raises NoVariant, VariantNeeded or VariantIncomplete.
    """
    models = [one for one in variants if one.kind != "projector"] or list(variants)
    if wanted is None:
        if len(models) != 1:
            if not models:
                raise NoVariant(repo=repo, wanted="GGUF", known="no models")
            raise VariantNeeded(repo=repo, known=known_labels(models))
        found = models[0]
    else:
        found = _named(repo, models, list(variants), wanted)
    if not found.complete:
        raise VariantIncomplete(repo=repo, variant=found.name)
    return found


def _named(
    repo: str, models: Sequence[Variant], variants: Sequence[Variant], wanted: str
) -> Variant:
    lower = wanted.strip().strip("/").lower()
    for found in (
        [one for one in models if (one.label or "").lower() == lower],
        [one for one in variants if lower in (one.name.lower(), one.name.lower() + _SUFFIX)],
        [one for one in variants if any(file.path.lower() == lower for file in one.files)],
        [one for one in models if one.name.lower().startswith(lower + "/")],
        [one for one in models if (one.label or "").lower() == f"ud-{lower}"],
    ):
        if len(found) == 1:
            return found[0]
        if found:
            raise VariantNeeded(repo=repo, known=", ".join(one.name for one in found[:_SHOWN]))
    raise NoVariant(repo=repo, wanted=wanted[:100], known=known_labels(models))


def known_labels(variants: Sequence[Variant]) -> str:
    labels = dict.fromkeys(one.label or one.name for one in variants)
    shown = list(labels)[:_SHOWN]
    more = len(labels) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "") if shown else "no models"


def projector_for(variants: Sequence[Variant]) -> Variant | None:
    """The repo's vision projector: in 16 bits where there are several."""
    found = [one for one in variants if one.kind == "projector" and one.complete]
    order = {"F16": 0, "BF16": 1, "Q8_0": 2, "F32": 3}
    return min(found, key=lambda one: (order.get(one.label or "", 4), one.bytes), default=None)


def recommended(variants: Sequence[Variant]) -> Variant | None:
    """Of the decoders that fit, the usual choice; else the largest that fits."""
    fitting = [
        one
        for one in variants
        if one.kind == "decoder" and one.complete and one.fit and one.fit.verdict == "fits"
    ]
    for label in _PREFERRED:
        for one in fitting:
            if one.label == label:
                return one
    small = [one for one in fitting if (one.label or "") not in ("F16", "BF16", "F32")]
    return max(small or fitting, key=lambda one: one.bytes, default=None)

"""Decides whether a prefiller belongs to a decoder.

Shapes agree across quantisations of a model and the text stays fluent, so a wrong pairing is
silent: it has to be ruled out before, by the decoder's hash where the prefiller carries one,
else by the name of the quantisation together with tensors, shapes and architecture.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from engine.api.plan import Remark
from engine.gguf.identity import decoder_hash
from engine.gguf.splits import GgufModel
from engine.prefiller.decoder import Decoder, describe_decoder, label_in
from engine.prefiller.errors import PairingImpossible, PairingRefused
from engine.prefiller.formats import Prefiller

BASE_NAME_KEY = "general.basename"  # of the model that finetunes and quantisations start from


class Verdict(StrEnum):
    MATCHED_BY_HASH = "matched_by_hash"
    MATCHED_BY_NAME = "matched_by_name"
    UNKNOWN = "unknown"
    WRONG = "wrong"


@dataclass(frozen=True)
class Pairing:
    """`remarks`: what the verdict rests on.

    `fits`: whether every tensor of the prefiller has its place in the decoder. Without that
    the pair cannot compute at all, whoever insists.
    """

    verdict: Verdict
    remarks: tuple[Remark, ...]
    fits: bool

    @property
    def reasons(self) -> tuple[str, ...]:
        """The remarks in plain words."""
        return tuple(remark.sentence for remark in self.remarks)

    @property
    def matched(self) -> bool:
        return self.verdict in (Verdict.MATCHED_BY_HASH, Verdict.MATCHED_BY_NAME)


def check_pairing(prefiller: Prefiller, decoder: GgufModel) -> Pairing:
    """What is known of `prefiller` belonging to `decoder`; raises MixtureOfExperts."""
    facts = describe_decoder(decoder)
    misfits = tuple(_misfits(prefiller, facts))
    if misfits:
        return Pairing(Verdict.WRONG, misfits, fits=False)
    missing = _missing(prefiller, facts)
    if missing:
        return Pairing(Verdict.WRONG, (missing,), fits=True)
    verdict, reason = _by_hash(prefiller, facts) or _by_name(prefiller, facts)
    return Pairing(verdict, (reason,), fits=True)


def require_pairing(prefiller: Prefiller, decoder: GgufModel, *, force: bool = False) -> Pairing:
    """The pairing if it is established or forced; else raises PairingRefused with the reasons.

    What does not fit raises PairingImpossible, forced or not.
    """
    pairing = check_pairing(prefiller, decoder)
    if pairing.matched or (force and pairing.fits):
        return pairing
    refusal = PairingRefused if pairing.fits else PairingImpossible
    raise refusal(
        prefiller=str(prefiller.path),
        decoder=str(decoder.path),
        verdict=pairing.verdict.value,
        reasons="; ".join(pairing.reasons),
    )


def _misfits(prefiller: Prefiller, facts: Decoder) -> Iterator[Remark]:
    if prefiller.architecture not in (None, facts.architecture):
        yield _remark(
            "architecture",
            "it is for the architecture {theirs}, the decoder is {ours}",
            theirs=prefiller.architecture,
            ours=facts.architecture,
        )
    if prefiller.block_count not in (None, facts.block_count):
        yield _remark(
            "blocks",
            "it is for {theirs} blocks, the decoder has {ours}",
            theirs=prefiller.block_count,
            ours=facts.block_count,
        )
    shapes = {place.name: tensor.shape for place, tensor in facts.linears.items()}
    strangers = [tensor.name for tensor in prefiller.tensors if tensor.name not in shapes]
    if strangers:
        words = f"the decoder has no place for {_counted(strangers)}"
        yield _remark("strangers", words, first=strangers[0], count=len(strangers))
    for tensor in prefiller.tensors:
        wanted = shapes.get(tensor.name, tensor.shape)
        if tensor.shape != wanted:
            yield _remark(
                "shape",
                "{tensor} is {theirs}, the decoder's is {ours}",
                tensor=tensor.name,
                theirs=_sizes(tensor.shape),
                ours=_sizes(wanted),
            )
            break


def _missing(prefiller: Prefiller, facts: Decoder) -> Remark | None:
    missing = [place.name for place in facts.linears if place.name not in prefiller.by_name]
    if not missing:
        return None
    words = f"it lacks {_counted(missing)}, which the decoder has"
    return _remark("missing", words, first=missing[0], count=len(missing))


def _by_hash(prefiller: Prefiller, facts: Decoder) -> tuple[Verdict, Remark] | None:
    if prefiller.decoder_hash is None:
        return None
    if prefiller.decoder_hash == decoder_hash(facts.model):
        return Verdict.MATCHED_BY_HASH, _remark("hash", "it carries the decoder's hash")
    origin = prefiller.origin
    named = " in ".join(part for part in (origin.decoder_name, origin.decoder_quantisation) if part)
    if not named:
        return Verdict.WRONG, _remark("other_hash", "it carries another decoder's hash")
    words = "it carries another decoder's hash, of {decoder}"
    return Verdict.WRONG, _remark("other_hash_named", words, decoder=named)


def _by_name(prefiller: Prefiller, facts: Decoder) -> tuple[Verdict, Remark]:
    model, decoder = (
        held.get(BASE_NAME_KEY) for held in (prefiller.metadata, facts.model.metadata)
    )
    if isinstance(model, str) and isinstance(decoder, str) and model.lower() != decoder.lower():
        words = "it is for a {theirs}, the decoder is a {ours}"
        return Verdict.UNKNOWN, _remark("base_name", words, theirs=model, ours=decoder)
    label = _label(prefiller)
    if label is None:
        words = "neither its name nor its metadata says which decoder it is for"
        return Verdict.UNKNOWN, _remark("no_label", words)
    if not facts.labels:
        words = "it is for {label}, and the decoder's quantisation is not known"
        return Verdict.UNKNOWN, _remark("no_quantisation", words, label=label)
    if label not in facts.labels:
        shown = " or ".join(facts.labels)
        words = "it is for {theirs}, the decoder is {ours}"
        return Verdict.WRONG, _remark("label", words, theirs=label, ours=shown)
    words = "it is for {label}, as the decoder is, and all tensors and shapes agree"
    return Verdict.MATCHED_BY_NAME, _remark("name", words, label=label)


def _label(prefiller: Prefiller) -> str | None:
    """The decoder's quantisation by the prefiller's metadata, file name or folder name."""
    if prefiller.origin.decoder_quantisation:
        return prefiller.origin.decoder_quantisation
    first = prefiller.files[0]
    return label_in(first.stem) or label_in(first.absolute().parent.name)


def _remark(code: str, words: str, **facts: Any) -> Remark:
    return Remark(code=code, sentence=words.format(**facts), data=facts)


def _counted(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} tensors ({names[0]} and others)"


def _sizes(shape: tuple[int, ...]) -> str:
    return " x ".join(str(size) for size in shape)

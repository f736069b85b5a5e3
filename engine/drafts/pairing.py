"""Reads what a drafter says of itself, and decides whether it belongs to a target.

A wrong pair loses no quality, for the target verifies every token; it only guesses badly. What
does not fit in width, tokens or tapped blocks cannot run at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.api.plan import Remark
from engine.drafts.convert import TARGET_HASH_KEY, TARGET_NAME_KEY
from engine.drafts.errors import NotADraft, PairingRefused
from engine.drafts.layouts import MAX_CONTEXT, MAX_LAYERS, MAX_VOCAB, MAX_WIDTH, Method, Target
from engine.gguf.identity import decoder_hash
from engine.gguf.keys import Keys
from engine.gguf.reader import GgufArray
from engine.gguf.splits import GgufModel, open_model
from engine.prefiller.pairing import Pairing, Verdict

# Architectures whose graphs hand out their blocks' inputs; the library aborts on any other.
TAPPED = frozenset(
    (
        "gpt-oss",
        "lfm2",
        "llama",
        "minimax-m2",
        "nemotron_h",
        "qwen3",
        "qwen35",
        "qwen35moe",
        "qwen3moe",
        "qwen3next",
    )
)


@dataclass(frozen=True)
class Draft:
    """`width` and `vocab` are what it asks of its target; `taps` the target's blocks whose inputs
    it reads. `nbytes`: of its weights."""

    model: GgufModel
    method: Method
    width: int
    vocab: int
    taps: tuple[int, ...]
    target_hash: str | None
    target_name: str | None

    @property
    def path(self) -> Path:
        return self.model.path

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in self.model.tensors)

    def cache_bytes(self, context: int, *, element: int = 2) -> int:
        """Bytes of its keys and values for `context` tokens of `element` bytes; Medusa has none."""
        if self.method is Method.MEDUSA:
            return 0
        keys = Keys(self.model, f"{self.method}.")
        heads = keys.integer("attention.head_count_kv", 1, MAX_WIDTH)
        length = keys.integer("attention.key_length", 1, MAX_WIDTH)
        blocks = keys.integer("block_count", 1, MAX_LAYERS)
        return 2 * blocks * heads * length * context * element


def open_draft(path: Path) -> Draft:
    """Raises NotADraft for other files, and a GgufError for one that is not well-formed."""
    model = open_model(path)
    name = model.metadata.get("general.architecture")
    if name not in [method.value for method in Method]:
        raise NotADraft(path=str(path))
    method = Method(str(name))
    keys = Keys(model, f"{method}.")
    width = keys.integer("embedding_length", 1, MAX_WIDTH)
    if method is Method.EAGLE3:
        width = keys.integer("target_hidden_size", 1, MAX_WIDTH)
    if method.carries_tokens:
        tokens = model.metadata.get("tokenizer.ggml.tokens")
        vocab = len(tokens) if isinstance(tokens, GgufArray) else 0
        keys.integer("context_length", 1, MAX_CONTEXT)
    else:
        vocab = keys.integer("vocab_size", 1, MAX_VOCAB)
    return Draft(
        model=model,
        method=method,
        width=width,
        vocab=vocab,
        taps=_taps(model, method),
        target_hash=_text(model, TARGET_HASH_KEY),
        target_name=_text(model, TARGET_NAME_KEY),
    )


def check_draft(draft: Draft, target: GgufModel) -> Pairing:
    """What is known of `draft` belonging to `target`. UNKNOWN: it fits, and says no more."""
    facts = Target(target)
    misfits = tuple(_misfits(draft, facts))
    if misfits:
        return Pairing(Verdict.WRONG, misfits, fits=False)
    if draft.target_hash is None:
        words = "it fits, and does not say which model it was trained for"
        return Pairing(Verdict.UNKNOWN, (_remark("no_hash", words),), fits=True)
    if draft.target_hash == decoder_hash(target):
        remark = _remark("hash", "it carries the model's hash")
        return Pairing(Verdict.MATCHED_BY_HASH, (remark,), fits=True)
    words = "it was trained for {model}, or for another quantisation of this one"
    remark = _remark("other_hash", words, model=draft.target_name or "another model")
    return Pairing(Verdict.UNKNOWN, (remark,), fits=True)


def require_draft(draft: Draft, target: GgufModel) -> Pairing:
    """The pairing of a drafter that fits; raises PairingRefused with the reasons else."""
    pairing = check_draft(draft, target)
    if not pairing.fits:
        raise PairingRefused(
            draft=str(draft.path), target=str(target.path), reasons="; ".join(pairing.reasons)
        )
    return pairing


def require_model_drafter(draft: GgufModel, target: GgufModel) -> None:
    """Raises PairingRefused unless `draft`, a whole model, has the very tokens of `target`."""
    if draft.metadata.get("general.architecture") in [method.value for method in Method]:
        remarks = [
            _remark("method", "it is no model of its own, but drafts from another's features")
        ]
    else:
        remarks = list(_other_tokens(draft, Target(draft).vocab, Target(target)))
    if remarks:
        reasons = "; ".join(remark.sentence for remark in remarks)
        raise PairingRefused(draft=str(draft.path), target=str(target.path), reasons=reasons)


def _misfits(draft: Draft, target: Target) -> Iterator[Remark]:
    if draft.width != target.width:
        words = "it reads features {theirs} wide, the model's are {ours}"
        yield _remark("width", words, theirs=draft.width, ours=target.width)
    if not draft.method.carries_tokens:
        if draft.vocab != target.vocab:
            yield _other_count(draft.vocab, target)
        return
    yield from _other_tokens(draft.model, draft.vocab, target)
    if target.architecture not in TAPPED:
        words = "the library hands out no features of a {architecture}"
        yield _remark("no_taps", words, architecture=target.architecture)
    if any(not 0 <= tap < target.blocks for tap in draft.taps):
        words = "it reads block {tap}, the model has {blocks}"
        yield _remark("taps", words, tap=max(draft.taps), blocks=target.blocks)


def _other_tokens(draft: GgufModel, vocab: int, target: Target) -> Iterator[Remark]:
    if vocab != target.vocab:
        yield _other_count(vocab, target)
    elif _tokens(draft) != _tokens(target.model):
        yield _remark("tokens", "its tokens are others than the model's")


def _other_count(vocab: int, target: Target) -> Remark:
    words = "it knows {theirs} tokens, the model has {ours}"
    return _remark("vocabulary", words, theirs=vocab, ours=target.vocab)


def _taps(model: GgufModel, method: Method) -> tuple[int, ...]:
    if not method.carries_tokens:
        return ()
    key = f"{method}.target_layers"
    values = model.metadata.get(key)
    taps = values.values if isinstance(values, GgufArray) else ()
    if not taps or len(taps) > MAX_LAYERS or (method is Method.EAGLE3 and len(taps) != 3):
        raise Keys(model).refuse(key, "a list of the target's blocks")
    if any(type(tap) is not int or not 0 <= tap <= MAX_CONTEXT for tap in taps):
        raise Keys(model).refuse(key, "a list of the target's blocks")
    return tuple(int(tap) for tap in taps)


def _tokens(model: GgufModel) -> bytes | None:
    tokens = model.metadata.get("tokenizer.ggml.tokens")
    return tokens.raw if isinstance(tokens, GgufArray) else None


def _text(model: GgufModel, key: str) -> str | None:
    value = model.metadata.get(key)
    return value if isinstance(value, str) and value else None


def _remark(code: str, words: str, **facts: Any) -> Remark:
    return Remark(code=code, sentence=words.format(**facts), data=facts)

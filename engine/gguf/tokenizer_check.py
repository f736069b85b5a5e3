"""Checks a model's tokenizer for what makes the library abort, while loading or later.

The library's rules (llama-vocab.cpp): texts of tokens are unique once cut at a NUL; lists
are as long as the vocabulary; a text prefix (BOS) that is asked for exists; sentencepiece
vocabularies can spell every byte.
"""

from __future__ import annotations

from engine.gguf.errors import DuplicateToken
from engine.gguf.keys import Keys
from engine.gguf.reader import MAX_ARRAY_STRINGS, GgufArray
from engine.gguf.splits import GgufModel
from engine.gguf.types import ValueType

MODEL_KEY = "tokenizer.ggml.model"
TOKENS_KEY = "tokenizer.ggml.tokens"
# tokenizers whose every path is covered here; others are tried in a child process first
CHECKED = frozenset({"gpt2", "llama", "gemma4", "test"})

# tokenizer -> the library's defaults: BOS, EOS, and whether BOS is put in front
_DEFAULTS: dict[str, tuple[int | None, int | None, bool]] = {
    "gpt2": (11, 11, False),
    "llama": (1, 2, True),
    "gemma4": (None, None, True),
    "test": (None, None, False),
}
# byte-pair pre-tokenizers that put BOS in front unless told otherwise
_PRE_WITH_BOS = frozenset(
    {
        "chameleon",
        "falcon-h1",
        "falcon3",
        "jina-v5-nano",
        "lfm2",
        "llama-bpe",
        "llama-v3",
        "llama3",
        "midm-2.0",
        "pixtral",
        "tekken",
    }
)
_PRE_WITHOUT_BOS_ID = frozenset({"chatglm-bpe", "glm4", "glm5"})
_UNKNOWN_TOKENIZER = (None, None, False)


def check_tokenizer(model: GgufModel) -> int:
    """The vocabulary's size; raises a `GgufError` for a tokenizer that would abort."""
    keys = Keys(model)
    kind = keys.text(MODEL_KEY)
    if kind in ("none", "no_vocab"):
        raise keys.refuse(MODEL_KEY, "a tokenizer")
    tokens = keys.array(TOKENS_KEY, (ValueType.STRING,), 1)
    assert tokens is not None
    count = len(tokens)
    number_types = (ValueType.FLOAT32, ValueType.INT32)
    keys.array("tokenizer.ggml.scores", number_types, count, required=False)
    keys.array("tokenizer.ggml.token_type", (ValueType.INT32,), count, required=False)
    if kind in ("gpt2", "gemma4"):
        keys.array("tokenizer.ggml.merges", (ValueType.STRING,), 0)
    ids = _token_ids(model, tokens)
    if kind == "llama":
        _check_bytes(keys, ids)
    _check_edges(keys, kind, count)
    return count


def _token_ids(model: GgufModel, tokens: GgufArray) -> dict[str, int]:
    ids: dict[str, int] = {}
    for number, token in enumerate(tokens.values):
        text = str(token).partition("\0")[0] or f"[EMPTY_{number}]"
        first = ids.setdefault(text, number)
        if first != number:
            raise DuplicateToken(model.path, token=text[:60], first=first, second=number)
    return ids


def _check_bytes(keys: Keys, ids: dict[str, int]) -> None:
    for byte in range(256):
        plain = chr(byte) if 0 < byte < 128 else ""
        if f"<0x{byte:02X}>" not in ids and plain not in ids:
            raise keys.refuse(TOKENS_KEY, "a token for every byte", f"a list without byte {byte}")


def _check_edges(keys: Keys, kind: str, count: int) -> None:
    bos, eos, add_bos = _DEFAULTS.get(kind, _UNKNOWN_TOKENIZER)
    pre = keys.text("tokenizer.ggml.pre", "")
    if kind == "gpt2" and pre in _PRE_WITH_BOS:
        add_bos = True
    if kind == "gpt2" and pre in _PRE_WITHOUT_BOS_ID:
        bos = None
    add_bos = keys.flag("tokenizer.ggml.add_bos_token", add_bos)
    add_eos = keys.flag("tokenizer.ggml.add_eos_token", False)
    if kind == "gemma4" or (kind == "gpt2" and pre in ("gemma4", "granite-embed-multi-311m")):
        add_bos = True  # the library puts it there whatever the file says
    for name, default, wanted in (("bos", bos, add_bos), ("eos", eos, add_eos)):
        key = f"tokenizer.ggml.{name}_token_id"
        token = keys.integer(key, 0, MAX_ARRAY_STRINGS, -1 if default is None else default)
        if not 0 <= token < count:  # the library falls back to its default
            token = -1 if default is None or default >= count else default
        if wanted and token < 0:
            raise keys.refuse(key, f"a token below {count}", token)

"""The sample text: real, and exactly as long as asked for once it is cut."""

from __future__ import annotations

import pytest

from engine.assets import asset
from engine.bench.sample_text import sample_text, tokenize


class ByteTokenizer:
    """One token a byte, and a token in front where special ones are wanted."""

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        assert not parse_special
        return [256] * add_special + list(text.encode())

    def piece(self, token: int) -> bytes:
        return bytes([token])


class JoiningTokenizer(ByteTokenizer):
    """Makes fewer tokens of a text that ends early, as byte-pair tokenizers may."""

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        tokens = super().tokenize(text, add_special=add_special, parse_special=parse_special)
        return tokens[:-40] if add_special else tokens


@pytest.mark.parametrize("tokens", [32, 1000, 60_000])
@pytest.mark.parametrize("tokenizer", [ByteTokenizer(), JoiningTokenizer()])
def test_the_text_has_enough_tokens_and_hardly_more(tokens: int, tokenizer: ByteTokenizer) -> None:
    found = len(tokenize(tokenizer, sample_text(tokenizer, tokens)))
    assert tokens <= found <= tokens + 50


def test_the_text_is_the_document_repeated() -> None:
    document = asset("long_document.md").read_text(encoding="utf-8").strip()
    text = sample_text(ByteTokenizer(), 2 * len(document.encode()))
    assert text.startswith(document)
    assert text[len(document) :].lstrip().startswith(document[:1000])

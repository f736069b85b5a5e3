"""Bytes of token pieces to text: a character split over tokens comes out whole."""

from __future__ import annotations

import codecs


class Utf8Stream:
    """Incremental UTF-8.

    Bytes that can no longer become a character are replaced by U+FFFD; an unfinished character
    waits for its rest until `flush`.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, piece: bytes) -> str:
        return self._decoder.decode(piece)

    def flush(self) -> str:
        return self._decoder.decode(b"", final=True)

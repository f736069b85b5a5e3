"""An answer while it grows: only its last block is parsed again, what stands above is settled."""

from __future__ import annotations

from typing import Any

from app.text.code import code_segments
from app.text.markdown import parser, segments_of, top_level
from app.text.segments import CODE_LINES, PROSE_LENGTH, Segment


class LiveText:
    """`update` takes the text so far and says which segments will not change any more.

    A settled code block may be shown in other pieces than the whole message would be; the view
    renders the message once more, at leisure, when it is finished.
    """

    def __init__(self) -> None:
        self._settled_to = 0
        self._references: dict[str, Any] = {}
        self._fence: tuple[str, str] | None = None  # language and closing mark of an open fence

    def update(self, text: str) -> tuple[list[Segment], list[Segment]]:
        """Newly settled segments, and the live ones that replace the last call's."""
        settled: list[Segment] = []
        if self._fence is None:
            settled += self._settle_blocks(text)
        if self._fence is not None:
            settled += self._settle_code(text)
        return settled, self._live(text[self._settled_to :])

    def _live(self, tail: str) -> list[Segment]:
        if self._fence is not None:
            return list(code_segments(tail, self._fence[0]))
        return segments_of(parser().parse(tail, self._references))

    def _settle_blocks(self, text: str) -> list[Segment]:
        """All but the last block; a fence that has grown long begins to be settled by lines."""
        tail = text[self._settled_to :]
        tokens = parser().parse(tail, self._references)
        blocks = top_level(tokens)
        if not blocks:
            return []
        last = blocks[-1][0]
        if last.map is None:
            return []
        lines = tail.splitlines(keepends=True)
        start = sum(len(line) for line in lines[: last.map[0]])
        before = [token for block in blocks[:-1] for token in block]
        if last.type == "fence" and last.level == 0 and len(lines) - last.map[0] > CODE_LINES:
            opening = lines[last.map[0]]
            self._fence = (last.info.strip().split(" ")[0], last.markup)
            self._settled_to += start + len(opening)
            return segments_of(before)
        # Short blocks stay together, so that a reader can select across them.
        if start < PROSE_LENGTH // 4 or not before:
            return []
        self._settled_to += start
        return segments_of(before)

    def _settle_code(self, text: str) -> list[Segment]:
        assert self._fence is not None
        language, mark = self._fence
        settled: list[Segment] = []
        while True:
            lines = text[self._settled_to :].splitlines(keepends=True)
            closing = next(
                (at for at, line in enumerate(lines) if _closes(line, mark)),
                None,
            )
            if closing is not None:
                code = "".join(lines[:closing])
                self._settled_to += len(code) + len(lines[closing])
                self._fence = None
                return settled + list(code_segments(code, language))
            if len(lines) <= CODE_LINES + 1:
                return settled
            code = "".join(lines[:CODE_LINES])
            self._settled_to += len(code)
            settled += code_segments(code, language)


def _closes(line: str, mark: str) -> bool:
    stripped = line.strip()
    return line.endswith("\n") and len(stripped) >= len(mark) and set(stripped) == set(mark)

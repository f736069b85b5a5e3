"""Code to HTML with a class for each kind of word."""

from __future__ import annotations

from html import escape
from typing import Any

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name  # pyright: ignore[reportUnknownVariableType]
from pygments.token import Comment, Keyword, Name, Number, Operator, String, Token
from pygments.util import ClassNotFound

from app.text.segments import CODE_LINES, LINE_LENGTH, Code

# Colouring costs about a microsecond a character; beyond this, code is shown plain.
COLOURED_LENGTH = 60_000

_CLASSES: tuple[tuple[Any, str], ...] = (
    (Comment, "c"),
    (Keyword, "k"),
    (Operator.Word, "k"),
    (String, "s"),
    (Number, "m"),
    (Name.Function, "f"),
    (Name.Class, "f"),
    (Name.Builtin, "f"),
    (Name.Decorator, "f"),
    (Name.Tag, "k"),
    (Name.Attribute, "f"),
)


def code_segments(source: str, language: str) -> list[Code]:
    """The block in pieces of CODE_LINES lines."""
    source = source.removesuffix("\n")
    lines = _lines(source, language)
    pieces = [lines[start : start + CODE_LINES] for start in range(0, len(lines), CODE_LINES)]
    return [
        Code(
            html="\n".join(piece),
            language=language,
            source=source if number == 0 else None,
            last=number == len(pieces) - 1,
        )
        for number, piece in enumerate(pieces or [[""]])
    ]


def _lines(source: str, language: str) -> list[str]:
    lexer = _lexer(language) if len(source) <= COLOURED_LENGTH else None
    if lexer is None:
        return [escape(part) for line in source.split("\n") for part in _folded(line)]
    lines: list[str] = [""]
    for kind, text in lexer.get_tokens(source):
        css = _class(kind)
        for number, part in enumerate(text.split("\n")):
            if number:
                lines.append("")
            if part:
                shown = escape(part)
                lines[-1] += f'<span class="{css}">{shown}</span>' if css else shown
    # The lexer ends every text with a line break.
    return lines[:-1] if len(lines) > 1 and lines[-1] == "" else lines


def _folded(line: str) -> list[str]:
    """A line of any length in pieces that can be laid out; copying gives the whole line."""
    return [line[at : at + LINE_LENGTH] for at in range(0, len(line), LINE_LENGTH)] or [""]


def _lexer(language: str) -> Lexer | None:
    if not language:
        return None
    try:
        return get_lexer_by_name(language, stripnl=False)
    except ClassNotFound:
        return None


def _class(kind: Any) -> str:
    while kind is not Token:
        for known, css in _CLASSES:
            if kind in known:
                return css
        kind = kind.parent
    return ""

"""Markdown to segments. Raw HTML is shown as text, images as links, other links than http(s) not.

The parser is markdown-it; formulas are `$..$`, `$$..$$`, `\\(..\\)` and `\\[..\\]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from html import escape
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.texmath import texmath_plugin

from app.text.code import code_segments
from app.text.segments import PROSE_LENGTH, Formula, Plain, Prose, Segment

TABLE_ROWS = 60


@lru_cache(maxsize=1)
def parser() -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"html": False, "linkify": True, "breaks": False})
    markdown.enable(["table", "strikethrough", "linkify"])
    markdown.use(dollarmath_plugin, allow_space=False, allow_digits=False, double_inline=True)
    return markdown.use(texmath_plugin, delimiters="brackets")


def render(source: str, references: dict[str, Any] | None = None) -> list[Segment]:
    """The message as segments. `references` keeps link definitions between parts of a message."""
    return segments_of(parser().parse(source, {} if references is None else references))


def render_typed(text: str) -> list[Segment]:
    """What a person typed, as typed: only fenced code is set apart."""
    segments: list[Segment] = []
    plain: list[str] = []
    fence: list[str] | None = None
    language = ""

    def end_plain() -> None:
        text = "\n".join(plain).strip("\n")
        plain.clear()
        segments.extend(Plain(part) for part in split_text(text) if text)

    for line in text.split("\n"):
        mark = line.strip()
        if fence is None and mark.startswith("```") and "`" not in mark[3:]:
            end_plain()
            fence, language = [], mark[3:].strip()
        elif fence is not None and mark == "```":
            segments += code_segments("\n".join(fence), language)
            fence = None
        elif fence is not None:
            fence.append(line)
        else:
            plain.append(line)
    if fence is not None:
        plain += [f"```{language}", *fence]  # never closed, so it was not meant as one
    end_plain()
    return segments


def split_text(text: str, length: int = PROSE_LENGTH) -> list[str]:
    """Parts of at most `length` characters, cut at a line's end or else at a space."""
    parts: list[str] = []
    while len(text) > length:
        cut = max(text.rfind("\n", length // 2, length), 0) or text.rfind(" ", 1, length)
        cut = cut if cut > 0 else length
        parts.append(text[:cut])
        text = text[cut:].removeprefix("\n") if text[cut : cut + 1] == "\n" else text[cut:]
    return [*parts, text]


@dataclass
class _Collected:
    """Prose that is still being gathered into one piece."""

    html: str = ""
    length: int = 0
    formulas: tuple[Formula, ...] = ()


def segments_of(tokens: Sequence[Token]) -> list[Segment]:
    segments: list[Segment] = []
    current = _Collected()

    def end_prose() -> None:
        nonlocal current
        if current.html:
            segments.append(Prose(current.html, current.formulas))
        current = _Collected()

    for block in top_level(tokens):
        if block[0].type in ("fence", "code_block"):
            end_prose()
            segments += code_segments(block[0].content, block[0].info.strip().split(" ")[0])
            continue
        for part in _small(block):
            writer = _Writer()
            html = writer.blocks(part)
            length = sum(len(token.content) for token in part)
            if current.length and current.length + length > PROSE_LENGTH:
                end_prose()
            current.html += html
            current.length += length
            current.formulas += tuple(writer.formulas)
    end_prose()
    return segments


def top_level(tokens: Sequence[Token]) -> list[list[Token]]:
    """The tokens of each block that stands in no other."""
    blocks: list[list[Token]] = []
    depth = 0
    for token in tokens:
        if depth == 0:
            blocks.append([])
        blocks[-1].append(token)
        depth += token.nesting
    return blocks


def _small(block: list[Token]) -> list[list[Token]]:
    """A block in parts that are each about as long as a piece of prose may be."""
    if sum(len(token.content) for token in block) <= PROSE_LENGTH:
        return [block]
    kind = block[0].type
    if kind in ("bullet_list_open", "ordered_list_open"):
        return _small_list(block)
    if kind == "table_open":
        return _small_table(block)
    if kind == "paragraph_open":
        return _small_paragraph(block)
    if kind == "blockquote_open":
        inner = [part for child in top_level(block[1:-1]) for part in _small(child)]
        return [[block[0], *part, block[-1]] for part in inner]
    return [block]


def _small_list(block: list[Token]) -> list[list[Token]]:
    opening, closing = block[0], block[-1]
    parts: list[list[Token]] = []
    number = int(opening.attrGet("start") or 1)
    length = PROSE_LENGTH
    for item in top_level(block[1:-1]):
        size = sum(len(token.content) for token in item)
        if length + size > PROSE_LENGTH:
            start = replace(opening, attrs={"start": number} if opening.tag == "ol" else {})
            parts.append([start, closing])
            length = 0
        parts[-1][-1:-1] = item
        length += size
        number += 1
    return parts


def _small_table(block: list[Token]) -> list[list[Token]]:
    """The head is repeated above each part."""
    body = next((at for at, token in enumerate(block) if token.type == "tbody_open"), None)
    if body is None:
        return [block]
    head = block[: body + 1]
    rows = top_level(block[body + 1 : -2])
    return [
        [*head, *(token for row in rows[at : at + TABLE_ROWS] for token in row), *block[-2:]]
        for at in range(0, len(rows), TABLE_ROWS)
    ]


def _small_paragraph(block: list[Token]) -> list[list[Token]]:
    opening, inline, closing = block[0], block[1], block[-1]
    runs: list[list[Token]] = [[]]
    length = depth = 0
    for child in inline.children or []:
        texts = split_text(child.content) if child.type == "text" else [child.content]
        for text in texts:
            if length and depth == 0 and length + len(text) > PROSE_LENGTH:
                runs.append([])
                length = 0
            runs[-1].append(replace(child, content=text))
            length += len(text)
        depth += child.nesting
    return [
        [
            opening,
            replace(inline, children=run, content="".join(child.content for child in run)),
            closing,
        ]
        for run in runs
    ]


class _Writer:
    """Writes tokens as HTML and gathers the formulas in them."""

    def __init__(self) -> None:
        self.formulas: list[Formula] = []

    def blocks(self, tokens: Sequence[Token]) -> str:
        html: list[str] = []
        tight = False
        for token in tokens:
            if token.type == "inline":
                html.append(self.inline(token.children or []))
            elif token.type in ("fence", "code_block"):
                html.append(f'<pre class="code">{escape(token.content.rstrip())}</pre>')
            elif token.type.startswith("math_block"):
                html.append(f'<p class="formula">{self._formula(token.content, display=True)}</p>')
            elif token.type == "hr":
                html.append("<hr>")
            elif token.type == "paragraph_open" and token.hidden:
                tight = True
            elif token.type == "paragraph_close" and token.hidden:
                tight = False
            elif token.type == "table_open":
                html.append('<table class="table" cellspacing="0" cellpadding="6" border="1">')
            elif token.nesting != 0 or token.tag:
                html.append(self._tag(token))
        assert not tight
        return "".join(html)

    def _tag(self, token: Token) -> str:
        if token.nesting < 0:
            return f"</{token.tag}>"
        attributes = ""
        if token.tag == "ol" and (start := token.attrGet("start")) not in (None, ""):
            attributes = f' start="{int(start)}"'
        if token.tag in ("th", "td"):
            style = str(token.attrGet("style") or "")
            align = style.removeprefix("text-align:") if style.startswith("text-align:") else "left"
            attributes = f' align="{align}"'
        return f"<{token.tag}{attributes}>"

    def inline(self, tokens: Sequence[Token]) -> str:
        html: list[str] = []
        open_links: list[bool] = []
        for token in tokens:
            kind = token.type
            if kind == "text":
                html.append(escape(token.content, quote=False))
            elif kind == "softbreak":
                html.append(" ")
            elif kind == "hardbreak":
                html.append("<br>")
            elif kind == "code_inline":
                html.append(f"<code>{escape(token.content, quote=False)}</code>")
            elif kind.startswith("math_"):
                display = kind != "math_inline"
                html.append(self._formula(token.content, display=display))
            elif kind == "image":
                html.append(_image(token))
            elif kind == "link_open":
                address = str(token.attrGet("href") or "")
                open_links.append(is_web(address))
                if open_links[-1]:
                    html.append(f'<a href="{escape(address)}">')
            elif kind == "link_close":
                if open_links.pop():
                    html.append("</a>")
            elif token.tag in ("em", "strong", "s"):
                html.append(f"</{token.tag}>" if token.nesting < 0 else f"<{token.tag}>")
            else:
                html.append(escape(token.content, quote=False))
        return "".join(html)

    def _formula(self, latex: str, *, display: bool) -> str:
        formula = Formula(latex.strip(), display)
        self.formulas.append(formula)
        return f'<img src="{escape(formula.key)}">'


def _image(token: Token) -> str:
    """No picture is ever fetched: its name is a link that a person may click."""
    address = str(token.attrGet("src") or "")
    name = escape(token.content or address, quote=False)
    return f'<a href="{escape(address)}">{name}</a>' if is_web(address) else name


def is_web(address: str) -> bool:
    """Whether a link may be opened on a click."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return parts.scheme.lower() in ("http", "https") and bool(parts.netloc)

"""The pieces a message is shown in. Each is small, so that laying one out never takes long."""

from __future__ import annotations

from dataclasses import dataclass

# Characters of source in one piece of prose, and lines in one piece of code.
PROSE_LENGTH = 4000
CODE_LINES = 120
LINE_LENGTH = 2000


@dataclass(frozen=True)
class Formula:
    """LaTeX source; the view shows it where `key` stands as an image's address."""

    latex: str
    display: bool

    @property
    def key(self) -> str:
        return f"formula:{'d' if self.display else 'i'}:{self.latex}"


@dataclass(frozen=True)
class Prose:
    """Rich text in the subset of HTML that Qt lays out; classes, no colours."""

    html: str
    formulas: tuple[Formula, ...] = ()


@dataclass(frozen=True)
class Code:
    """Some lines of a code block. `source` is the whole block's text, on its first piece only."""

    html: str
    language: str
    source: str | None
    last: bool


@dataclass(frozen=True)
class Plain:
    """Text exactly as it was typed."""

    text: str


Segment = Prose | Code | Plain

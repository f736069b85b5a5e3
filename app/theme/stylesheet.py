"""Qt's stylesheet, made from the tokens."""

from __future__ import annotations

from pathlib import Path
from string import Template

from app.theme.tokens import RADIUS, TYPE, Colours

_TEMPLATE = Path(__file__).with_name("window.qss")


def stylesheet(colours: Colours, *, scale: float, arrow_down: str, check: str) -> str:
    """`scale` multiplies the type sizes; `arrow_down` and `check` are paths of images."""
    sizes = {
        name: round(getattr(TYPE, name) * scale)
        for name in ("small", "body", "transcript", "title", "code")
    }
    return Template(_TEMPLATE.read_text(encoding="utf-8")).substitute(
        vars(colours),
        focus=colours.focus,
        control=RADIUS.control,
        card=RADIUS.card,
        arrow_down=arrow_down,
        check=check,
        **sizes,
    )

"""LaTeX formulas to SVG, without a TeX installation; what cannot be drawn is shown as written."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from functools import lru_cache

from app.text.segments import Formula

LONGEST = 4000
_VIEW_BOX = re.compile(r'viewBox="([-\d.]+) ([-\d.]+) ([-\d.]+) ([-\d.]+)"')
# The library keeps its configuration in a global.
_lock = threading.Lock()


@dataclass(frozen=True)
class Drawing:
    """An SVG in black for text of 16 px; `rise` is above, `depth` below the baseline, in px."""

    svg: str
    width: float
    rise: float
    depth: float


@lru_cache(maxsize=1024)
def draw(formula: Formula) -> Drawing | None:
    """None if it is not a formula that the library understands. Takes some 20 ms the first time."""
    if len(formula.latex) > LONGEST:
        return None
    # Slow to import, and most messages have no formula.
    from ziamath.config import config
    from ziamath.zmath import Latex

    config.svg2 = False  # each glyph drawn where it stands: Qt does not know <symbol>

    try:
        with _lock:
            svg = str(Latex(formula.latex, size=18, inline=not formula.display, color="#000").svg())
    except Exception:  # the library raises whatever its parts raise
        return None
    box = _VIEW_BOX.search(svg)
    if box is None:
        return None
    top, width, height = float(box[2]), float(box[3]), float(box[4])
    return Drawing(svg=svg, width=width, rise=-top, depth=height + top)

"""Other hues for reading and for what can be pressed; all keep AA contrast in both themes."""

from __future__ import annotations

from dataclasses import replace

from app.theme.tokens import Colours

# Each hue: its colour, its soft fill and its selection, light and dark.
ACCENTS: dict[str, tuple[tuple[str, str, str], tuple[str, str, str]]] = {
    "indigo": (("#4F46E5", "#E6E6FD", "#CFCDFB"), ("#8E95F9", "#2A2C57", "#3B3E7A")),
    "blue": (("#1D5FD6", "#E0EAFD", "#C3D6FB"), ("#7FB0FF", "#1F335C", "#2F4A80")),
    "violet": (("#7C3AED", "#EDE5FD", "#DCCBFB"), ("#B794F8", "#3A2A5E", "#4E3A7E")),
    "rose": (("#BE185D", "#FCE4EE", "#F8C6DB"), ("#F78FB8", "#52233A", "#6E3150")),
}


def accented(colours: Colours, accent: str, *, dark: bool) -> Colours:
    prefill, soft, selection = ACCENTS[accent][1 if dark else 0]
    return replace(colours, prefill=prefill, prefill_soft=soft, selection=selection)

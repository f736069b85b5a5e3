"""The design's tokens: colours of both themes, spaces, radii and type sizes, all in pixels."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Colours:
    """One theme's colours. Indigo (`prefill`) is reading a prompt, teal (`decode`) is writing."""

    bg: str
    surface: str
    raised: str
    line: str
    text: str
    text_2: str
    prefill: str
    prefill_soft: str
    decode: str
    decode_soft: str
    warn: str
    error: str
    hover: str
    pressed: str
    on_prefill: str
    on_decode: str
    selection: str
    # Code: the few kinds of words that a reader looks for.
    code_keyword: str
    code_string: str
    code_number: str
    code_comment: str
    code_name: str

    @property
    def focus(self) -> str:
        return self.prefill


LIGHT = Colours(
    bg="#FFFFFF",
    surface="#F6F7F9",
    raised="#FFFFFF",
    line="#DFE3E8",
    text="#16181D",
    text_2="#565E6C",
    prefill="#4F46E5",
    prefill_soft="#E6E6FD",
    decode="#0F766E",
    decode_soft="#D6F0EC",
    warn="#9A5B00",
    error="#B42318",
    hover="#ECEEF2",
    pressed="#E1E4EA",
    on_prefill="#FFFFFF",
    on_decode="#FFFFFF",
    selection="#CFCDFB",
    code_keyword="#4338CA",
    code_string="#0F6B3E",
    code_number="#8A4B00",
    code_comment="#5D6573",
    code_name="#0B5C8A",
)

DARK = Colours(
    bg="#111318",
    surface="#191C22",
    raised="#20242C",
    line="#2C323B",
    text="#E8EAEE",
    text_2="#A0A8B5",
    prefill="#8E95F9",
    prefill_soft="#2A2C57",
    decode="#2DD4BF",
    decode_soft="#123F3B",
    warn="#FBBF24",
    error="#F97066",
    hover="#242932",
    pressed="#2C323C",
    on_prefill="#111318",
    on_decode="#111318",
    selection="#3B3E7A",
    code_keyword="#A5AAFB",
    code_string="#86D9A6",
    code_number="#F2B36B",
    code_comment="#98A1AF",
    code_name="#7CC7F2",
)


@dataclass(frozen=True)
class Space:
    """Distances: inside controls, between them, around a group, between sections."""

    inside: int = 8
    between: int = 12
    around: int = 16
    section: int = 24
    half: int = 4


@dataclass(frozen=True)
class Radius:
    control: int = 8
    card: int = 12


@dataclass(frozen=True)
class Type:
    """Sizes of text at 100%; the user's font size scales all of them."""

    small: int = 13
    body: int = 14
    transcript: int = 16
    title: int = 20
    code: int = 13
    line_height: float = 1.55


SPACE = Space()
RADIUS = Radius()
TYPE = Type()

COLUMN_WIDTH = 760  # the transcript's widest column
SIDEBAR_WIDTH = 264
PANEL_WIDTH = 300
SCROLL_BAR = 12
CONTROL_HEIGHT = 36
MOTION_MS = 150

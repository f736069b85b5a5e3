"""Formulas are drawn without TeX; what cannot be drawn is said to be so."""

from __future__ import annotations

import pytest

from app.text.formulas import draw
from app.text.segments import Formula


@pytest.mark.parametrize(
    "latex", [r"\frac{a}{b}", r"\sum_{i=0}^n x_i^2", r"\int_0^\infty e^{-x^2}\,dx", r"\alpha\beta"]
)
def test_a_formula_is_an_svg_with_its_baseline(latex: str) -> None:
    drawing = draw(Formula(latex, True))
    assert drawing is not None
    assert drawing.svg.startswith("<svg")
    assert "<symbol" not in drawing.svg, "Qt cannot draw symbols"
    assert drawing.width > 0 and drawing.rise > 0


@pytest.mark.parametrize("latex", [r"\frac{", "x" * 10_000, r"\undefinedcommand{"])
def test_what_is_no_formula_is_not_drawn(latex: str) -> None:
    assert draw(Formula(latex, False)) is None

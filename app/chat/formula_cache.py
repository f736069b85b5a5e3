"""Formulas that were drawn; a new one is drawn in the background and told of when it is there."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from app.shell.background import Background
from app.text.formulas import Drawing, draw
from app.text.segments import Formula


class FormulaCache(QObject):
    """`drawn` comes after some formulas that were asked for are there."""

    drawn = Signal()

    def __init__(self, background: Background, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._background = background
        self._drawings: dict[Formula, Drawing | None] = {}
        self._wanted: set[Formula] = set()

    def drawing(self, formula: Formula) -> Drawing | None:
        """None while it is being drawn, and for what cannot be drawn."""
        if formula not in self._drawings and formula not in self._wanted:
            self._wanted.add(formula)
            self._background.run(
                lambda: draw(formula), lambda drawing: self._arrived(formula, drawing)
            )
        return self._drawings.get(formula)

    def _arrived(self, formula: Formula, drawing: Drawing | None) -> None:
        self._wanted.discard(formula)
        self._drawings[formula] = drawing
        if not self._wanted:
            self.drawn.emit()

"""The layout of the graphics cards: each pack with its devices, a switch, and what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QGridLayout,
    QProgressBar,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.diagnostics.card_words import about, devices, name_of, trouble
from app.i18n import tr
from app.shell.panel import Choice, Panel
from app.shell.widgets import button, clear_layout, column, icon_button, label, restyle, row, rule
from engine.api.backends import BackendInfo

_TONES = {"ready": "badge-decode", "unfit": "badge-warn"}


class PackRow(QWidget):
    """`switched` with whether the pack is wanted, by the user's hand alone."""

    switched = Signal(bool)

    def __init__(self, name: str) -> None:
        super().__init__()
        self.pack = name
        shown = name_of(name)
        self.switch = QCheckBox()
        self.switch.setProperty("kind", "bare")
        self.switch.setAccessibleName(tr("cards.use", name=shown))
        self.switch.setToolTip(tr("cards.use", name=shown))
        self.switch.clicked.connect(self.switched)
        self.badge = label("", "badge")
        self.badge.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.check = button(tr("cards.check"))
        self.check.setAccessibleName(tr("cards.check_of", name=shown))
        self.remove = icon_button("trash-2", tr("cards.remove", name=shown), size=16)
        self.facts = label("", "small", wrap=True)
        self.problem = label("", "error", wrap=True)
        self.problem.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._question = QVBoxLayout()
        self._question.setContentsMargins(0, 6, 0, 0)
        head = row(label(shown, "heading"), self.badge, None, self.check, self.remove)
        lines = column(self.facts, self.problem, spacing=2)
        lines.addLayout(self._question)
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(8)
        grid.setVerticalSpacing(8)
        grid.setColumnStretch(1, 1)
        grid.addWidget(rule(), 0, 0, 1, 2)
        grid.addWidget(self.switch, 1, 0)
        grid.addLayout(head, 1, 1)
        grid.addLayout(lines, 2, 1)

    def show_info(self, info: BackendInfo, *, checking: bool, enabled: bool) -> None:
        """`checking`: its self-check runs; `enabled`: whether anything can be asked for now."""
        state = "checking" if checking else info.state
        self.badge.setText(tr(f"cards.states.{state}"))
        self.badge.setProperty("kind", _TONES.get(state, "badge"))
        restyle(self.badge)
        self.switch.setChecked(checking or info.state in ("ready", "unchecked"))
        self.facts.setText("\n".join([about(info.name), *devices(info)]))
        self.problem.setText("" if checking else trouble(info))
        self.problem.setVisible(bool(self.problem.text()))
        self.check.setVisible(info.enabled and info.state != "ready")
        self.remove.setVisible(not info.carried)
        for control in (self.switch, self.check, self.remove):
            control.setEnabled(enabled)

    def ask(self, words: str, answer: str, act: Callable[[], None]) -> Panel:
        """Asks below, in place of what was asked before."""
        clear_layout(self._question)
        panel = Panel([words], [Choice(answer, act, "danger")])
        self._question.addWidget(panel)
        panel.buttons[-1].setFocus()
        return panel


class CardsView(QVBoxLayout):
    """`switched` (name, whether wanted), `check_asked` (name), `remove_asked` (name)."""

    switched = Signal(str, bool)
    check_asked = Signal(str)
    remove_asked = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setSpacing(10)
        self.rows: dict[str, PackRow] = {}
        self.add = button(tr("cards.add"), icon_name="plus")
        self.empty = label(tr("cards.none"), wrap=True)
        self.problem = label("", "error", wrap=True)
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setRange(0, 0)
        self.bar.setAccessibleName(tr("cards.checking"))
        self.step = label(tr("cards.checking"), "small", wrap=True)
        self.hint = label(tr("cards.later"), "secondary", wrap=True)
        self.reload = button(tr("cards.load_again"), icon_name="refresh-cw")
        self._pending = QWidget()
        line = row(spacing=16)
        line.addWidget(self.hint, 1)
        line.addWidget(self.reload)
        self._pending.setLayout(line)
        self._rows = column(spacing=10)
        self.addLayout(row(label(tr("cards.title"), "heading"), None, self.add))
        self.addWidget(label(tr("cards.words"), "secondary", wrap=True))
        for part in (self.step, self.bar, self.problem, self.empty):
            self.addWidget(part)
        self.addLayout(self._rows)
        self.addWidget(self._pending)
        for part in (self.step, self.bar, self.problem, self.empty, self._pending):
            part.hide()

    def show_packs(self, infos: Sequence[BackendInfo], *, checking: str, enabled: bool) -> None:
        """`checking`: the name of the pack whose self-check runs, or empty. Rows stay where their
        packs do, so that the keyboard's focus stays, too."""
        if list(self.rows) != [info.name for info in infos]:
            self._make_rows([info.name for info in infos])
        for info in infos:
            running = info.name == checking
            self.rows[info.name].show_info(info, checking=running, enabled=enabled)
        self.empty.setVisible(not infos)

    def show_checking(self, running: bool) -> None:
        self.step.setVisible(running)
        self.bar.setVisible(running)

    def show_problem(self, sentence: str) -> None:
        self.problem.setText(sentence)
        self.problem.setVisible(bool(sentence))

    def show_pending(self, pending: bool, *, can_load: bool) -> None:
        self._pending.setVisible(pending)
        self.reload.setVisible(can_load)

    def _make_rows(self, names: Sequence[str]) -> None:
        clear_layout(self._rows)
        self.rows = {}
        for name in names:
            made = PackRow(name)
            made.switched.connect(partial(self._switch, name))
            made.check.clicked.connect(partial(self.check_asked.emit, name))
            made.remove.clicked.connect(partial(self.remove_asked.emit, name))
            self.rows[name] = made
            self._rows.addWidget(made)

    def _switch(self, name: str, wanted: bool) -> None:
        self.switched.emit(name, wanted)

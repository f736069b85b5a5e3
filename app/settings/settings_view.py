"""The settings page's layout: search above, sections of rows, and what a restart waits for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLineEdit,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.i18n import numbers, tr
from app.settings.editors import Editor
from app.settings.entries import SECTIONS, Entry
from app.settings.settings_controller import SettingsController
from app.shell.context import Context
from app.shell.page import Page
from app.shell.scrolled import scrolled
from app.shell.steps import Steps
from app.shell.widgets import button, clear_layout, clearable, column, icon_button, label, row, rule

WIDEST = 800


def make_page(context: Context) -> Page:
    view = SettingsView()
    view.controller = SettingsController(context, view)
    return view


class SettingRow(QWidget):
    """`edited` with the setting's name and its new value, `reset` with its name."""

    edited = Signal(str, object)
    reset = Signal(str)

    def __init__(self, entry: Entry) -> None:
        super().__init__()
        self._editor_place = QHBoxLayout()
        self._editor_place.setContentsMargins(0, 0, 0, 0)
        self._title = label("", wrap=True)
        self._title.setText(entry.title)
        self._hint = label(entry.hint, "small", wrap=True)
        self._facts = label("", "small", wrap=True)
        self._problem = label("", "error", wrap=True)
        self._reset = icon_button("rotate-ccw", tr("settings.reset", name=entry.title), size=16)
        self._reset.clicked.connect(lambda: self.reset.emit(entry.name))
        self._reset.setSizePolicy(_keeping(self._reset))
        words = column(self._title, self._hint, self._facts, self._problem, spacing=2)
        layout = QHBoxLayout()
        layout.setContentsMargins(0, 10, 0, 10)
        layout.setSpacing(16)
        layout.addLayout(words, 1)
        layout.addLayout(self._editor_place)
        layout.addWidget(self._reset, 0, Qt.AlignmentFlag.AlignVCenter)
        self._rule = rule()
        whole = column(self._rule, spacing=0)
        whole.addLayout(layout)
        self.setLayout(whole)
        self._problem.hide()
        self.show_entry(entry)

    def show_rule(self, shown: bool) -> None:
        """The line to the setting above."""
        self._rule.setVisible(shown)

    def show_entry(self, entry: Entry) -> None:
        """The value as it is now; the control is made anew."""
        focused = self._editor_has_focus()
        editor = Editor(entry)
        editor.edited.connect(partial(self.edited.emit, entry.name))
        clear_layout(self._editor_place)
        self._editor_place.addWidget(editor)
        self.entry, self.editor = entry, editor
        facts = " · ".join(_facts(entry))
        self._facts.setText(facts[:1].upper() + facts[1:])
        self._facts.setVisible(bool(facts))
        self._reset.setVisible(entry.changed and not entry.fixed)
        self.say("")
        if focused:
            editor.setFocus()

    def say(self, problem: str) -> None:
        """Why a value was refused, below the setting."""
        self._problem.setText(problem)
        self._problem.setVisible(bool(problem))

    @property
    def problem(self) -> str:
        return self._problem.text()

    @property
    def reset_button(self) -> QWidget:
        return self._reset

    def _editor_has_focus(self) -> bool:
        editor: Editor | None = getattr(self, "editor", None)
        return editor is not None and editor.control.hasFocus()


class SettingsView(Page):
    edited = Signal(str, object)
    reset = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[str, SettingRow] = {}
        self._sections: dict[str, QFrame] = {}
        self._adding: Steps | None = None
        self._showing: Steps | None = None
        self.search = QLineEdit()
        self.search.setPlaceholderText(tr("settings.search"))
        self.search.setAccessibleName(tr("settings.search"))
        clearable(self.search)
        self.search.textChanged.connect(self.filter)
        self.restart_words = label("", wrap=True)
        self.restart = button(tr("settings.restart_engine"))
        bar = row(self.restart_words, self.restart, spacing=12)
        bar.setStretch(0, 1)
        bar.setContentsMargins(16, 12, 16, 12)
        self.pending = QFrame()
        self.pending.setProperty("kind", "notice-card")
        self.pending.setLayout(bar)
        self.pending.hide()
        self.nothing = label(tr("settings.nothing"), "secondary")
        self.nothing.hide()
        self.engine_words = label("", "secondary", wrap=True)
        self._list = QVBoxLayout()
        self._list.setSpacing(16)
        self._privacy = QFrame()
        self._privacy.setProperty("kind", "card")
        self._privacy.setLayout(
            column(label(tr("settings.privacy"), "heading"),
                   label(tr("settings.privacy_words"), "small", wrap=True), margin=16)
        )  # fmt: skip
        content = QWidget()
        inside = column(
            label(tr("pages.settings"), "title"), self.search, self.pending, self.nothing,
            spacing=12, margin=24,
        )  # fmt: skip
        inside.addLayout(self._list)
        inside.addWidget(self._privacy)
        inside.addWidget(self.engine_words)
        inside.addStretch(1)
        content.setLayout(inside)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(scrolled(content, WIDEST, tr("pages.settings")))

    def shown(self) -> None:
        super().shown()
        self.search.setFocus()

    def close_page(self) -> None:
        for steps in (self._adding, self._showing):
            if steps is not None:
                steps.stop()
        super().close_page()

    @property
    def complete(self) -> bool:
        """Whether all settings are there: rows are added, and shown, bit by bit."""
        return self._adding is None and self._showing is None

    def show_entries(self, entries: Sequence[Entry]) -> None:
        """Rows that are there show the new value, others are added."""
        missing: list[Entry] = []
        for entry in entries:
            row = self.rows.get(entry.name)
            if row is None:
                missing.append(entry)
            elif row.entry != entry:
                row.show_entry(entry)
        if self._adding is not None:
            self._adding.stop()
        self._adding = Steps(self._add(missing), self._added, self)

    def filter(self, typed: str) -> None:
        """Shows the settings that the typed words are in."""
        words = f"{tr('settings.privacy')} {tr('settings.privacy_words')}".casefold()
        privacy = all(word in words for word in typed.casefold().split())
        self._privacy.setVisible(privacy)
        found = [item for item in self.rows.values() if item.entry.matches(typed)]
        sections = {item.entry.section for item in found}
        for item in self.rows.values():
            if item not in found:
                item.hide()
        for section, card in self._sections.items():
            card.setVisible(section in sections and card.isVisibleTo(self))
        self.nothing.setVisible(bool(self.rows) and not found and not privacy)
        if self._showing is not None:
            self._showing.stop()
            self._showing.deleteLater()
        self._showing = Steps(self._show(found), self._shown, self)

    def _show(self, found: Sequence[SettingRow]) -> Iterator[None]:
        """Bit by bit: showing all at once is a pause."""
        before = ""
        for item in found:
            item.show_rule(item.entry.section == before)
            before = item.entry.section
            item.show()
            self._sections[before].show()
            yield

    def _shown(self) -> None:
        assert self._showing is not None
        self._showing.deleteLater()
        self._showing = None

    def _add(self, entries: Sequence[Entry]) -> Iterator[None]:
        typed = self.search.text()
        for section in SECTIONS:
            for entry in entries:
                if entry.section == section:
                    self._add_row(entry).setVisible(entry.matches(typed))
                    yield

    def _added(self) -> None:
        self._adding = None
        self.filter(self.search.text())

    def _add_row(self, entry: Entry) -> SettingRow:
        card = self._sections.get(entry.section)
        if card is None:
            card = self._make_section(entry.section)
            self._sections[entry.section] = card
            before = SECTIONS[: SECTIONS.index(entry.section)]
            self._list.insertWidget(sum(name in self._sections for name in before), card)
        made = SettingRow(entry)
        made.edited.connect(self.edited)
        made.reset.connect(self.reset)
        layout = card.layout()
        assert layout is not None
        made.show_rule(layout.count() > 1)
        self.rows[entry.name] = made
        layout.addWidget(made)
        return made

    def _make_section(self, section: str) -> QFrame:
        layout = QVBoxLayout()
        layout.setContentsMargins(16, 12, 16, 6)
        layout.setSpacing(0)
        layout.addWidget(label(tr(f"sections.{section}"), "heading"))
        card = QFrame()
        card.setProperty("kind", "card")
        card.setLayout(layout)
        return card


def _keeping(widget: QWidget) -> QSizePolicy:
    """The policy of a widget whose room stays when it is hidden."""
    policy = widget.sizePolicy()
    policy.setRetainSizeWhenHidden(True)
    return policy


def _facts(entry: Entry) -> list[str]:
    """The range, and when a change takes effect."""
    facts: list[str] = []
    if entry.minimum is not None and entry.maximum is not None:
        low, high = _number(entry.minimum), _number(entry.maximum)
        facts.append(tr("settings.range", low=low, high=high))
    if entry.restart:
        facts.append(tr("settings.needs_restart"))
    if entry.fixed:
        facts.append(tr("settings.fixed"))
    return facts


def _number(value: float) -> str:
    return numbers.count(int(value)) if value == int(value) else f"{value:g}"

"""A model of the library as a row: how it is, where it is from, its prefillers, what it allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QWidget

from app.engine_client.failures import sentence
from app.i18n import numbers, tr
from app.models.row import Row
from app.models.words import (
    DOT,
    entry_facts,
    file_names,
    origin_words,
    pairing_words,
    state_label,
    verdict_label,
)
from app.shell.panel import Panel
from app.shell.widgets import clear_layout, label
from engine.api.models import AttachedPrefiller, EntryState, ModelEntry

Action = Literal["use", "verify", "build", "export", "remove"]
# What can be done to an entry whatever its kind, by its state.
_ACTIONS: dict[EntryState, tuple[Action, ...]] = {
    "ready": ("verify", "export", "remove"),
    "incomplete": ("remove",),
    "damaged": ("verify", "remove"),
    "unreadable": ("remove",),
    "offline": ("remove",),
    "absent": (),
}


@dataclass(frozen=True)
class Ask:
    """What somebody wants done: with a prefiller of the entry's, where there is one."""

    action: Action
    entry: ModelEntry
    prefiller: AttachedPrefiller | None = None


class EntryRow(Row):
    """`asked` with an Ask. `entries` are all of the library by id: prefillers are entries, too."""

    asked = Signal(object)

    def __init__(self, entry: ModelEntry, entries: Mapping[str, ModelEntry]) -> None:
        super().__init__(entry.name, opens=True, among_menus=True)
        self.entry = entry
        self._entries = entries
        self._in_use = False
        self.panel: Panel | None = None
        self.acted.connect(lambda: self.asked.emit(Ask("use", self.entry, self.entry.prefiller)))
        self.toggled.connect(self._on_toggled)
        self.show_entry(entry, entries)

    def show_entry(self, entry: ModelEntry, entries: Mapping[str, ModelEntry]) -> None:
        self.entry, self._entries = entry, entries
        self.show_facts(entry_facts(entry))
        self.show_size(entry.bytes)
        self.show_label(state_label(entry))
        absent = entry.state == "absent"
        problem = tr("models.demo_absent") if absent else ""
        if entry.failure is not None and not absent:
            problem = sentence(entry.failure)
        self.show_problem(problem)
        actions: list[Action] = list(_ACTIONS[entry.state])
        if entry.origin.way == "demo":  # the set-up's, not the library's
            actions = [action for action in actions if action != "remove"]
        if entry.kind == "decoder" and entry.state == "ready":
            actions.insert(1, "build")
        if actions:
            self.set_menu(lambda: [self._menu_action(action, entry) for action in actions])
        else:
            self.set_menu(None)
        self.show_in_use(self._in_use)
        if self.is_open:
            self._fill_details()

    def show_in_use(self, in_use: bool) -> None:
        self._in_use = in_use
        if self.entry.kind != "decoder" or self.entry.state != "ready":
            self.show_button("")
        elif in_use:
            self.show_button(tr("models.in_use"), enabled=False)
        else:
            self.show_button(tr("models.use"))

    def ask_below(self, panel: Panel) -> None:
        """Shows a question below the row, instead of an earlier one."""
        if self.panel is not None:
            self.panel.close_panel()
        self.panel = panel
        panel.destroyed.connect(partial(self._forget, panel))
        self.set_open(True)
        self.details.insertWidget(0, panel)
        panel.buttons[0].setFocus(Qt.FocusReason.OtherFocusReason)

    def _forget(self, panel: Panel, _: object = None) -> None:
        if self.panel is panel:
            self.panel = None

    def _on_toggled(self, is_open: bool) -> None:
        if is_open:
            self._fill_details()

    def _fill_details(self) -> None:
        panel = self.panel
        if panel is not None:
            self.details.removeWidget(panel)
        clear_layout(self.details)
        if panel is not None:
            self.details.addWidget(panel)
        entry = self.entry
        facts: list[str] = []
        if entry.context:
            facts.append(tr("models.context", tokens=numbers.count(entry.context)))
        if entry.parameters:
            facts.append(tr("models.parameters", count=f"{entry.parameters / 1e9:.3g}"))
        facts.append(origin_words(entry))
        for words in (DOT.join(fact for fact in facts if fact), file_names(_paths(entry))):
            if words:
                self._add(label(words, "small", wrap=True))
        for prefiller in entry.prefillers:
            self._add(self._prefiller_row(prefiller))
        for projector in entry.projectors:
            fits = {True: "models.projector", None: "models.projector_unknown"}
            words = tr(fits.get(projector.fits, "models.projector_wrong"))
            shown = Row(projector.path.name, words, among_menus=True)
            shown.show_size(projector.bytes)
            self._add(shown)

    def _prefiller_row(self, prefiller: AttachedPrefiller) -> Row:
        shown = Row(prefiller.path.stem, pairing_words(prefiller), among_menus=True)
        shown.show_size(prefiller.bytes)
        shown.show_label(verdict_label(prefiller))
        if prefiller.choosable:
            shown.show_button(tr("models.use_pair"))
            shown.acted.connect(partial(self._ask_for, Ask("use", self.entry, prefiller)))
        if prefiller.verdict == "unknown" or prefiller.id in self._entries:
            shown.set_menu(partial(self._prefiller_actions, prefiller))
        return shown

    def _prefiller_actions(self, prefiller: AttachedPrefiller) -> list[QAction]:
        actions: list[QAction] = []
        if prefiller.verdict == "unknown":
            insist = QAction(tr("models.insist"), self)
            insist.triggered.connect(partial(self._ask_for, Ask("use", self.entry, prefiller)))
            actions.append(insist)
        own = self._entries.get(prefiller.id)
        if own is not None:
            actions += [self._menu_action(action, own) for action in _ACTIONS[own.state]]
        return actions

    def _add(self, shown: QWidget) -> None:
        self.details.addWidget(shown)

    def _menu_action(self, action: Action, entry: ModelEntry) -> QAction:
        made = QAction(tr(f"models.{action}"), self)
        made.triggered.connect(partial(self._ask_for, Ask(action, entry)))
        return made

    def _ask_for(self, ask: Ask, _: bool = False) -> None:
        self.asked.emit(ask)


def _paths(entry: ModelEntry) -> tuple[Path, ...]:
    return tuple(file.path for file in entry.files) or (entry.path,)

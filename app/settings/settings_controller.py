"""The settings page's logic: one list of both programs' settings, changed where each is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QTimer

from app.engine_client.client import Connection
from app.engine_client.failures import sentence
from app.i18n import tr
from app.settings.entries import Entry, engine_entries, window_entries
from app.shell.context import Context
from app.shell.page import PageController
from app.theme.motion import set_still
from app.theme.theme import theme
from engine.api.failure import Failure
from engine.api.requests import SettingsAnswer

if TYPE_CHECKING:
    from app.settings.settings_view import SettingsView


class SettingsController(PageController):
    def __init__(self, context: Context, view: SettingsView) -> None:
        super().__init__(view)
        self._context = context
        self._view = view
        self._engine = context.engine
        self._engine_entries: list[Entry] = []
        self._waiting: dict[str, str] = {}  # titles of what waits for a restart, by name
        view.edited.connect(self._change)
        view.reset.connect(self._reset)
        view.restart.clicked.connect(self._restart)
        self._engine.connection_changed.connect(self._on_connection)

    def close(self) -> None:
        self._engine.connection_changed.disconnect(self._on_connection)

    def refresh(self) -> None:
        self._show()
        if self._engine.connection is Connection.CONNECTED:
            self._engine.http.get("/twofold/settings", self._on_settings, self._on_unknown)

    def _show(self) -> None:
        window = window_entries(self._context.preferences.values)
        self._view.show_entries([*window, *self._engine_entries])
        known = bool(self._engine_entries)
        self._view.engine_words.setText("" if known else tr("settings.engine_away"))
        self._view.engine_words.setVisible(not known)
        self._view.pending.setVisible(bool(self._waiting))
        names = ", ".join(self._waiting.values())
        self._view.restart_words.setText(tr("settings.pending", names=names))

    def _on_settings(self, answer: Any) -> None:
        told = SettingsAnswer.model_validate(answer)
        self._engine_entries = engine_entries(told.settings)
        titles = {entry.name: entry.title for entry in self._engine_entries}
        self._waiting |= {name: titles[name] for name in told.restart if name in titles}
        self._show()

    def _on_unknown(self, problem: Failure) -> None:
        self._view.engine_words.setText(sentence(problem))

    def _on_connection(self, connection: Connection) -> None:
        if connection is Connection.CONNECTED:
            self._waiting = {}
        if self._view.isVisible():
            self.refresh()

    def _restart(self) -> None:
        self._engine.start()

    def _reset(self, name: str) -> None:
        if name.startswith("window."):
            entry = self._view.rows[name].entry
            self._change(name, entry.default)
        else:
            self._change(name, None)

    def _change(self, name: str, value: Any) -> None:
        if name.startswith("window."):
            self._change_window(name.removeprefix("window."), value)
            return
        self._engine.http.put(
            "/twofold/settings",
            {"values": {name: value}},
            self._on_settings,
            lambda problem: self._on_refused(name, problem),
        )

    def _on_refused(self, name: str, problem: Failure) -> None:
        """Says why below the setting, which shows the value in force again."""
        if name in self._view.rows:
            row = self._view.rows[name]
            row.show_entry(row.entry)
            row.say(sentence(problem))

    def _change_window(self, field: str, value: Any) -> None:
        values = self._context.preferences.values
        if field == "language":
            value = None if value == "system" else value
        if getattr(values, field) == value:
            return
        setattr(values, field, value)
        self._context.preferences.save()
        if field == "language":
            # The control that was used belongs to the window that goes.
            QTimer.singleShot(0, self._context.restart_window)
            return
        if field == "reduce_motion":
            set_still(value)
        else:
            theme().apply(mode=values.theme, scale=values.font_scale, accent=values.accent)
        self._show()

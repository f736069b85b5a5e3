"""The logic of the graphics cards: which packs there are, switching, adding, checking, removing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QFileDialog, QWidget

from app.diagnostics.card_words import name_of, trouble
from app.diagnostics.cards_view import CardsView
from app.engine_client.client import Connection
from app.engine_client.failures import sentence
from app.i18n import tr
from app.shell.announce import announce
from app.shell.context import Context
from engine.api.backends import BackendInfo, Backends
from engine.api.engine import EngineState
from engine.api.failure import Failure

ROUTE = "/twofold/backends"


class CardsController(QObject):
    """`changed` when other devices than before are to be used. One thing is asked for at a time."""

    changed = Signal()

    def __init__(self, context: Context, view: CardsView, page: QWidget) -> None:
        super().__init__(page)
        self._context = context
        self._view = view
        self._page = page
        self._engine = context.engine
        self._http = context.engine.http
        self._infos: tuple[BackendInfo, ...] | None = None  # not told yet
        self._busy = False
        self._checking = ""
        self._status = self._engine.state.status
        self._pending = False
        self._closed = False
        view.switched.connect(self._switch)
        view.check_asked.connect(self._check)
        view.remove_asked.connect(self._ask_to_remove)
        view.add.clicked.connect(self._choose_file)
        view.reload.clicked.connect(context.loader.restart)
        self._engine.state_changed.connect(self._on_state)

    def close(self) -> None:
        """An answer that comes after this goes nowhere."""
        self._closed = True
        self._engine.state_changed.disconnect(self._on_state)

    def refresh(self) -> None:
        if self._engine.connection is Connection.CONNECTED and not self._busy:
            self._http.get(ROUTE, self._on_listed, self._on_problem)
        self._show()

    def add(self, path: Path) -> None:
        """Installs the pack in the file; the engine checks it before it is used."""
        known = {info.name for info in self._infos or ()}
        self._ask("/install", {"path": str(path)}, partial(self._on_added, known))
        self._view.show_checking(True)

    def _choose_file(self) -> None:
        chosen, _ = QFileDialog.getOpenFileName(
            self._page, tr("cards.choose"), str(Path.home()), tr("cards.files")
        )
        if chosen:
            self.add(Path(chosen))

    def _switch(self, name: str, wanted: bool) -> None:
        """A pack that is switched on is checked at once, so that what is wrong is said now."""
        then = partial(self._check, name) if wanted else self._done
        self._ask("", {"name": name, "enabled": wanted}, lambda _: then())

    def _check(self, name: str) -> None:
        self._checking = name
        self._ask("/check", {"name": name}, partial(self._on_checked, name))

    def _ask_to_remove(self, name: str) -> None:
        words = tr("cards.remove_words", name=name_of(name))
        remove = partial(self._remove, name)
        self._view.rows[name].ask(words, tr("cards.remove_now"), remove)

    def _remove(self, name: str) -> None:
        self._ask("/remove", {"name": name}, lambda _: self._done())

    # What the engine answers

    def _ask(self, route: str, body: dict[str, Any], then: Callable[[Backends], None]) -> None:
        self._busy = True
        self._view.show_problem("")

        def answered(answer: Any) -> None:
            if not self._closed:
                found = Backends.model_validate(answer)
                self._infos = found.backends
                self._busy, self._checking = False, ""
                then(found)
                self._show()

        def failed(problem: Failure) -> None:
            if not self._closed:
                self._busy, self._checking = False, ""
                self._on_problem(problem)
                self.refresh()

        self._http.post(ROUTE + route, body, answered, failed)
        self._show()

    def _on_listed(self, answer: Any) -> None:
        if not self._closed and not self._busy:
            self._infos = Backends.model_validate(answer).backends
            self._show()

    def _on_added(self, known: set[str], found: Backends) -> None:
        for info in found.backends:
            if info.name not in known or info.state != "ready":
                self._tell(info)
        self._done()

    def _on_checked(self, name: str, found: Backends) -> None:
        for info in found.backends:
            if info.name == name:
                self._tell(info)
        self._done()

    def _on_problem(self, problem: Failure) -> None:
        if not self._closed:
            self._view.show_problem(sentence(problem))
            announce(self._page, sentence(problem))

    def _done(self) -> None:
        self._pending = self._status in ("ready", "loading")
        self.changed.emit()

    def _tell(self, info: BackendInfo) -> None:
        announce(self._page, trouble(info) or tr("cards.is_ready", name=name_of(info.name)))

    def _on_state(self, state: EngineState) -> None:
        """A model that begins to load takes the packs as they are now."""
        if state.status != self._status:
            self._status = state.status
            if state.status in ("loading", "empty"):
                self._pending = False
            self._show()

    def _show(self) -> None:
        connected = self._engine.connection is Connection.CONNECTED
        free = connected and not self._busy
        self._view.add.setEnabled(free)
        if self._infos is not None:
            self._view.show_packs(self._infos, checking=self._checking, enabled=free)
        self._view.show_checking(bool(self._checking))
        can_load = self._context.loader.chosen is not None
        self._view.show_pending(self._pending and free, can_load=can_load)

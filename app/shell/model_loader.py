"""Which model is loaded: the one of the last time at the start, another when somebody asks."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject

from app.engine_client.client import Connection, EngineClient
from app.preferences import PreferencesFile
from engine.api.engine import EngineState, LoadRequest
from engine.paths import demo_model, demo_prefiller


class ModelLoader(QObject):
    """Loads the remembered model whenever an engine has started, also after a crash."""

    def __init__(
        self, engine: EngineClient, preferences: PreferencesFile, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._engine = engine
        self._preferences = preferences
        self._asked = False
        engine.connection_changed.connect(self._on_connection)
        engine.state_changed.connect(self._on_state)

    @property
    def chosen(self) -> str | None:
        """The path of the model that is, or will be, loaded."""
        return self._preferences.values.model

    @staticmethod
    def demo() -> Path | None:
        """The demo model, where the set-up has put one."""
        path = demo_model()
        return path if path.is_file() else None

    def load(
        self, model: Path, prefiller: Path | None = None, *, force_pairing: bool = False
    ) -> None:
        """Loads this model now and at every start from now on."""
        values = self._preferences.values
        values.model = str(model)
        values.prefiller = str(prefiller) if prefiller is not None else None
        values.force_pairing = force_pairing
        self._preferences.save()
        self._load_chosen()

    def load_demo(self) -> None:
        """The demo model, with its prefiller where that was built."""
        if (demo := self.demo()) is not None:
            prefiller = demo_prefiller()
            self.load(demo, prefiller if prefiller.is_file() else None)

    def restart(self) -> None:
        """After a failure: whatever is needed to answer again."""
        if self._engine.connection is Connection.CONNECTED:
            self._load_chosen()
        else:
            self._engine.start()

    def _on_connection(self, connection: Connection) -> None:
        if connection is not Connection.CONNECTED:
            self._asked = False
        self._on_state(self._engine.state)

    def _on_state(self, state: EngineState) -> None:
        connected = self._engine.connection is Connection.CONNECTED
        if connected and state.status == "empty" and not self._asked:
            self._load_chosen()

    def _load_chosen(self) -> None:
        values = self._preferences.values
        if values.model is None or self._engine.connection is not Connection.CONNECTED:
            return
        self._asked = True
        request = LoadRequest(
            model=values.model, prefiller=values.prefiller, force_pairing=values.force_pairing
        )
        self._engine.load(request)

"""The server's models and their queue: opened in the background, so that it starts at once."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from engine.errors import TwofoldError
from engine.server.errors import Stopping
from engine.settings_store import SettingsStore

if TYPE_CHECKING:
    from engine.downloads.service import Models

log = logging.getLogger(__name__)


class LazyModels:
    """Safe for several threads. Closing does not wait for an opening that is under way: whoever
    opens them finds that it is too late, and closes them again."""

    def __init__(self, store: SettingsStore | None = None) -> None:
        self._store = store
        self._models: Models | None = None
        self._closed = False
        self._opening = threading.Lock()
        self._state = threading.Lock()  # held for a moment only

    def start(self) -> None:
        """Lets downloads that an earlier run left go on."""
        threading.Thread(target=self._start, name="models", daemon=True).start()

    def get(self) -> Models:
        """Raises WriteFailed where the data folder cannot be used, Stopping at the end."""
        with self._opening:
            return self._opened() or self._open()

    def close(self) -> None:
        with self._state:
            self._closed = True
            models, self._models = self._models, None
        if models is not None:
            models.close()

    def _opened(self) -> Models | None:
        """Raises Stopping."""
        with self._state:
            if self._closed:
                raise Stopping
            return self._models

    def _open(self) -> Models:
        from engine.downloads.service import Models  # the hub's library takes its time

        self._opened()  # it may have taken until the end
        models = Models(self._store or SettingsStore())
        with self._state:
            if not self._closed:
                self._models = models
                models.runner.start()
                return models
        models.close()
        raise Stopping

    def _start(self) -> None:
        try:
            self.get()
        except Stopping:
            pass
        except TwofoldError as error:  # each request for models will say so
            log.warning("models.not_opened", extra={"code": error.code})

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
    """Safe for several threads."""

    def __init__(self, store: SettingsStore | None = None) -> None:
        self._store = store
        self._models: Models | None = None
        self._closed = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Lets downloads that an earlier run left go on."""
        threading.Thread(target=self._start, name="models", daemon=True).start()

    def get(self) -> Models:
        """Raises WriteFailed where the data folder cannot be used, Stopping at the end."""
        with self._lock:
            if self._closed:
                raise Stopping
            if self._models is None:
                from engine.downloads.service import Models  # the hub's library takes its time

                self._models = Models(self._store or SettingsStore())
                self._models.runner.start()
            return self._models

    def close(self) -> None:
        with self._lock:
            self._closed = True
            models, self._models = self._models, None
        if models is not None:
            models.close()

    def _start(self) -> None:
        try:
            self.get()
        except TwofoldError as error:  # each request for models will say so
            log.warning("models.not_opened", extra={"code": error.code})

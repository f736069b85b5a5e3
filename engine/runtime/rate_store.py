"""Keeps what runs taught in one small file of the data folder; a damaged file is begun anew."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from engine import paths
from engine.runtime.learned import Learned

FILE_NAME = "rates.json"
MAX_BYTES = 8 << 20  # far beyond what bounded contents can take


class RateStore:
    """`learned` is what is known; `update` changes it and writes the file whole or not at all.

    Losing it costs a few measurements, so a folder that cannot be written is no error: the rates
    then last as long as the process.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._file = (folder or paths.data_folder()) / FILE_NAME
        self._lock = threading.Lock()
        self._learned: Learned | None = None

    @property
    def learned(self) -> Learned:
        with self._lock:
            return self._known()

    def update(self, change: Callable[[Learned], Learned]) -> Learned:
        """Applies `change` to what the file holds now, others' additions included."""
        with self._lock:
            self._learned = change(self._read() or self._known())
            with contextlib.suppress(OSError):
                self._write(self._learned)
            return self._learned

    def _known(self) -> Learned:
        if self._learned is None:
            self._learned = self._read() or Learned()
        return self._learned

    def _read(self) -> Learned | None:
        try:
            with self._file.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
            return Learned.model_validate_json(content) if len(content) <= MAX_BYTES else None
        except (OSError, ValueError):
            return None

    def _write(self, learned: Learned) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{FILE_NAME}.", dir=self._file.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(learned.model_dump_json())
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(self._file)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

"""What the window remembers between starts: one declarative record in one small file."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError


class Preferences(BaseModel):
    """`language` None follows the system. `model` and `prefiller` are loaded at the next start."""

    model_config = ConfigDict(extra="ignore", validate_assignment=True)

    theme: Literal["system", "light", "dark"] = "system"
    language: Literal["en", "ko"] | None = None
    accent: Literal["indigo", "blue", "violet", "rose"] = "indigo"
    reduce_motion: bool = False
    font_scale: float = Field(default=1.0, ge=0.8, le=2.0)
    model: str | None = None
    prefiller: str | None = None
    force_pairing: bool = False
    path: Literal["auto", "decoder", "resident", "odp", "autocast"] = "auto"
    sidebar_width: int = Field(default=264, ge=200, le=600)
    window: tuple[int, int, int, int] | None = None
    maximized: bool = False


class PreferencesFile:
    """Reads and writes the record. A file that cannot be read is put aside, never lost."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.values = self._read()

    def save(self) -> None:
        """Whole or not at all; a folder that cannot be written costs only the memory of it."""
        new = self._path.with_suffix(".new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            new.write_text(self.values.model_dump_json(indent=2), encoding="utf-8")
            new.replace(self._path)
        except OSError:
            return

    def _read(self) -> Preferences:
        try:
            return Preferences.model_validate(json.loads(self._path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return Preferences()
        except (OSError, ValueError, ValidationError):
            with contextlib.suppress(OSError):
                self._path.replace(self._path.with_suffix(".unreadable"))
            return Preferences()

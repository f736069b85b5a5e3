"""Looks whether a path that a client names leads anywhere, before anything is done for it."""

from __future__ import annotations

import stat
from pathlib import Path

from engine.gguf.errors import Unreadable


def require_present(name: str | None, *, folder: bool = True) -> None:
    """Raises Unreadable where there is nothing, or a folder that may not be one."""
    if name is None:
        return
    try:
        mode = Path(name).expanduser().stat().st_mode
    except (OSError, ValueError, RuntimeError) as error:  # also NUL in a name, and no home
        reason = getattr(error, "strerror", None) or str(error)
        raise Unreadable(Path(name), reason=reason) from None
    if stat.S_ISDIR(mode) and not folder:
        raise Unreadable(Path(name), reason="it is a folder")

"""Reads CHANGELOG.md, which the installers' own lists of releases are made from."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from pathlib import Path

CHANGELOG = Path(__file__).resolve().parents[1] / "CHANGELOG.md"
_HEADING = re.compile(r"^## (\S+) \((\d{4}-\d{2}-\d{2})\)$", re.MULTILINE)


@dataclass(frozen=True)
class Release:
    version: str
    day: date
    changes: tuple[str, ...]


def releases(path: Path = CHANGELOG) -> list[Release]:
    """The newest first."""
    parts = _HEADING.split(path.read_text(encoding="utf-8"))[1:]
    return [
        Release(
            version=version,
            day=date.fromisoformat(day),
            changes=tuple(re.findall(r"^- (.+)$", text, re.MULTILINE)),
        )
        for version, day, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    ]

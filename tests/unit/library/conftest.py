"""Libraries in temporary folders, without the machine's own demo model."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from engine.library.database import Database
from engine.library.library import Folders, Library

MakeLibrary = Callable[..., Library]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TWOFOLD_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("TWOFOLD_CACHE", raising=False)
    return tmp_path / "home"


@pytest.fixture
def main(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    return folder


@pytest.fixture
def make_library(tmp_path: Path, main: Path) -> Generator[MakeLibrary]:
    """Makes the libraries of successive starts."""
    databases: list[Database] = []

    def make(*others: Path, folder: Path | None = None) -> Library:
        databases.append(Database(tmp_path / "models.sqlite"))
        folders = Folders(folder or main, others)
        return Library(databases[-1], lambda: folders)

    yield make
    for database in databases:
        database.close()


@pytest.fixture
def library(make_library: MakeLibrary) -> Library:
    return make_library()

"""Folders follow the two environment variables, and otherwise the system."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine import paths


def test_home_moves_all_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TWOFOLD_CACHE", raising=False)
    monkeypatch.setenv("TWOFOLD_HOME", str(tmp_path))
    assert paths.data_folder() == tmp_path / "data"
    assert paths.cache_folder() == tmp_path / "cache"
    assert paths.config_folder() == tmp_path / "config"
    assert paths.log_folder() == tmp_path / "logs"


def test_cache_variable_moves_the_cache_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TWOFOLD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TWOFOLD_CACHE", str(tmp_path / "elsewhere"))
    assert paths.cache_folder() == tmp_path / "elsewhere"
    assert paths.data_folder() == tmp_path / "home" / "data"
    assert paths.demo_model().parent == tmp_path / "elsewhere" / "models"


def test_without_variables_folders_are_the_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TWOFOLD_HOME", "TWOFOLD_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert paths.cache_folder().name == "twofold"
    assert paths.data_folder() != paths.config_folder()

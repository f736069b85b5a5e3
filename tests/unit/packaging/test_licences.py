"""LICENSES.md names everything that is shipped, at the version that is locked."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_list_is_what_the_script_would_write_now() -> None:
    script = runpy.run_path(str(ROOT / "packaging" / "licences.py"))
    assert (ROOT / "LICENSES.md").read_text(encoding="utf-8") == script["licences"]()


def test_every_licence_is_stated() -> None:
    assert "not stated" not in (ROOT / "LICENSES.md").read_text(encoding="utf-8")

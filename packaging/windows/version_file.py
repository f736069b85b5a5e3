"""Writes what Windows shows as a program's properties, from the version in pyproject.toml."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from staging import project


def text(version: str) -> str:
    """The resource, as PyInstaller reads it."""
    numbers = tuple([*map(int, version.split(".")), 0, 0, 0][:4])
    strings = {
        "CompanyName": "The Twofold developers",
        "FileDescription": "Twofold",
        "FileVersion": version,
        "OriginalFilename": "twofold.exe",
        "ProductName": "Twofold",
        "ProductVersion": version,
    }
    listed = ", ".join(f"StringStruct({name!r}, {value!r})" for name, value in strings.items())
    return (
        f"VSVersionInfo(ffi=FixedFileInfo(filevers={numbers}, prodvers={numbers}), kids=["
        f"StringFileInfo([StringTable('040904B0', [{listed}])]), "
        "VarFileInfo([VarStruct('Translation', [1033, 1200])])])\n"
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(text(project().version), encoding="utf-8")

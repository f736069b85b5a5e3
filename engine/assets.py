"""Finds the files that ship with the program, installed or in a checkout."""

from __future__ import annotations

import tomllib
from pathlib import Path

from pydantic import BaseModel, ConfigDict

import engine
from engine.errors import TwofoldError


class AssetMissing(TwofoldError):
    """A file that ships with the program is not there (`name`, `folders` looked in)."""

    code = "assets.missing"


class Demo(BaseModel):
    """The demo's question, the document it is about, and the short answer that stands in it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    document: str
    question: str
    answer: str

    @property
    def prompt(self) -> str:
        """The whole message: the document, then the question."""
        return f"{asset(self.document).read_text(encoding='utf-8').strip()}\n\n{self.question}"


def asset(name: str) -> Path:
    """The path of an asset. Raises AssetMissing."""
    package = Path(engine.__file__ or "").parent
    # An installed package carries its assets inside; in a checkout they lie beside it.
    folders = [package / "assets", package.parent / "assets"]
    for folder in folders:
        if (folder / name).is_file():
            return folder / name
    raise AssetMissing(name=name, folders=" and ".join(map(str, folders)))


def demo() -> Demo:
    return Demo.model_validate(tomllib.loads(asset("demo.toml").read_text(encoding="utf-8")))

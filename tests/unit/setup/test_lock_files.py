"""The lock files hold exactly what pyproject.toml pins, with hashes."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
# Built from its source distribution by the set-up, which has its own pin.
NOT_LOCKED = {"llama-cpp-python"}


def locked(name: str) -> dict[str, str]:
    text = (ROOT / name).read_text(encoding="utf-8")
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", text, flags=re.MULTILINE))


def pins(requirements: list[str]) -> dict[str, str]:
    found = dict(re.sub(r"\[.*\]", "", line).split("==") for line in requirements)
    return {name: version for name, version in found.items() if name not in NOT_LOCKED}


def test_every_requirement_is_pinned_and_locked_at_its_pin() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    running = pins(PROJECT["project"]["dependencies"]) | pins(extras["build"])
    assert running.items() <= locked("requirements.lock").items()
    assert (running | pins(extras["dev"])).items() <= locked("requirements-dev.lock").items()


def test_developers_run_the_same_versions_as_everybody() -> None:
    assert locked("requirements.lock").items() <= locked("requirements-dev.lock").items()


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_every_locked_package_has_hashes_and_names_no_index(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    entries = re.split(r"^(?=[a-z0-9-]+==)", text, flags=re.MULTILINE)[1:]
    assert entries
    assert all("--hash=sha256:" in entry for entry in entries)
    assert "://" not in text


def test_the_build_backend_is_the_locked_one() -> None:
    assert pins(PROJECT["build-system"]["requires"]).items() <= locked("requirements.lock").items()


def test_the_library_that_is_built_is_the_library_that_is_required() -> None:
    pinned = PROJECT["tool"]["twofold"]["llama"]["version"]
    assert f"llama-cpp-python=={pinned}" in PROJECT["project"]["dependencies"]

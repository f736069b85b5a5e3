"""The packaged program understands Python's own words, opens models, and knows its commands."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.unit.packaging.scripts import script


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["-P", "-m", "engine.worker"], ("module", "engine.worker", [])),
        (["-m", "engine.probe.rates", "{}"], ("module", "engine.probe.rates", ["{}"])),
        (["-P", "/a/kernels.py", "x"], ("file", "/a/kernels.py", ["x"])),
        (["chat", "-m", "a.gguf"], None),
        (["-m"], None),
        ([], None),
    ],
)
def test_pythons_words_mean_what_they_mean_to_python(
    arguments: Sequence[str], meant: tuple[str, str, list[str]] | None
) -> None:
    assert script("launcher").module_call(arguments) == meant


def test_a_double_click_opens_the_window() -> None:
    for_window = script("launcher").is_for_window
    assert for_window([]) and for_window(["/home/me/Model.GGUF"])
    assert not for_window(["chat"]) and not for_window(["chat", "a.gguf"])

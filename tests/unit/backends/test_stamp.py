"""A backend's file is refused, with one sentence, unless it is whole and for this very library."""

from __future__ import annotations

import json
import platform
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.backends.errors import (
    BackendNotALibrary,
    BackendNotReadable,
    BackendNotStamped,
    BackendWrongMachine,
    BackendWrongVersion,
)
from engine.backends.stamp import read_stamp, require_match
from engine.errors import TwofoldError
from engine.words import sentence
from setup.backends import stamp
from setup.compiler import find_compiler

FACTS = {"backend": "rpc", "version": "0.3.36", "commit": "0c1e57098"}


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real shared library without a stamp."""
    folder = tmp_path_factory.mktemp("library")
    (folder / "empty.c").write_text("int answer(void) { return 42; }\n", encoding="utf-8")
    library = folder / "libbare.so"
    subprocess.run([find_compiler().c, "-shared", "-o", library, folder / "empty.c"], check=True)
    return library


@pytest.fixture(scope="module")
def stamped(bare: Path) -> Path:
    target = bare.with_name("libstamped.so")
    stamp(bare, target, FACTS)
    return target


def changed(source: Path, target: Path, offset: int, content: bytes) -> Path:
    raw = bytearray(source.read_bytes())
    raw[offset : offset + len(content)] = content
    target.write_bytes(raw)
    return target


def test_a_file_for_this_library_is_taken(stamped: Path) -> None:
    found = require_match(stamped, "0.3.36")
    assert found.backend == "rpc"


def test_a_file_for_another_version_is_refused_naming_both(stamped: Path) -> None:
    with pytest.raises(BackendWrongVersion) as caught:
        require_match(stamped, "0.4.0")
    assert "0.3.36" in sentence(caught.value)
    assert "0.4.0" in sentence(caught.value)


def test_a_library_that_nobody_stamped_is_refused(bare: Path) -> None:
    with pytest.raises(BackendNotStamped):
        read_stamp(bare)


def test_a_stamp_that_is_not_ours_is_refused(bare: Path, tmp_path: Path) -> None:
    stamp(bare, tmp_path / "odd.so", {"words": "others"})
    with pytest.raises(BackendNotStamped):
        read_stamp(tmp_path / "odd.so")


def test_a_library_for_another_processor_is_refused(stamped: Path, tmp_path: Path) -> None:
    other = changed(stamped, tmp_path / "other.so", 18, b"\xf3\x00")  # RISC-V
    with pytest.raises(BackendWrongMachine) as caught:
        read_stamp(other)
    assert platform.machine() in sentence(caught.value)


@pytest.mark.parametrize("content", [b"", b"MZ", b"\x7fELF", b"text " * 100])
def test_what_is_no_library_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(BackendNotALibrary):
        read_stamp(tmp_path / "file")


def test_a_program_is_no_library(stamped: Path, tmp_path: Path) -> None:
    with pytest.raises(BackendNotALibrary):
        read_stamp(changed(stamped, tmp_path / "program", 16, b"\x02\x00"))


@pytest.mark.parametrize("share", [0.3, 0.9, 0.999])
def test_a_file_cut_short_is_refused(share: float, stamped: Path, tmp_path: Path) -> None:
    raw = stamped.read_bytes()
    (tmp_path / "short.so").write_bytes(raw[: int(len(raw) * share)])
    with pytest.raises(BackendNotALibrary):
        read_stamp(tmp_path / "short.so")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BackendNotReadable):
        read_stamp(tmp_path / "none.so")
    with pytest.raises(BackendNotReadable):
        read_stamp(tmp_path)


@settings(
    max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(offset=st.integers(0, 63), content=st.binary(min_size=1, max_size=8))
def test_a_hostile_header_is_read_or_refused_but_never_breaks(
    offset: int, content: bytes, stamped: Path, tmp_path: Path
) -> None:
    hostile = changed(stamped, tmp_path / "hostile.so", offset, content)
    try:
        assert read_stamp(hostile).model_dump() == FACTS
    except TwofoldError as error:
        assert json.dumps(error.data)

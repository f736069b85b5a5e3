"""`./twofold` on machines that lack something: one sentence, and nothing half done."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.setup.conftest import Launch, executable


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    """The one line that a failed launch printed."""
    assert done.returncode == 1, done
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return line


def test_without_python_it_says_so(launch: Launch) -> None:
    assert "[python.missing]" in sentence(launch("doctor"))


def test_a_python_that_is_too_old_is_not_used(launch: Launch, programs: Path) -> None:
    # An old Python fails the version check; so does a version manager's shim that leads nowhere.
    executable(programs / "python3", "exit 1")
    executable(programs / "python3.11", "echo 'command not found in this version' >&2", "exit 127")
    assert "Python 3.11 or newer" in sentence(launch("doctor"))


@pytest.mark.usefixtures("add_python")
def test_without_a_compiler_it_says_so_before_doing_anything(
    launch: Launch, checkout: Path
) -> None:
    assert "[compiler.missing]" in sentence(launch("doctor"))
    assert not (checkout / ".venv").exists()


@pytest.mark.usefixtures("add_python")
def test_an_old_compiler_is_refused_by_name(launch: Launch, programs: Path) -> None:
    executable(programs / "gcc")
    executable(
        programs / "g++", "echo '#define __GNUC__ 9'", """echo '#define __VERSION__ "9.4"'"""
    )
    found = sentence(launch("doctor"))
    assert "GCC 9.4 is too old" in found
    assert "[compiler.too_old]" in found


@pytest.mark.usefixtures("add_python")
def test_a_compiler_without_its_headers_is_refused_with_its_own_words(
    launch: Launch, programs: Path
) -> None:
    executable(programs / "cc")
    executable(
        programs / "c++",
        """case "$1" in -dM) echo '#define __GNUC__ 12'; echo '#define __VERSION__ "12.2"';;""",
        "*) echo 'span: No such file or directory' >&2; exit 1;; esac",
    )
    found = sentence(launch("doctor"))
    assert "span: No such file or directory" in found
    assert "[compiler.broken]" in found


@pytest.mark.usefixtures("add_python")
def test_a_cache_that_cannot_be_made_is_named(launch: Launch, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder", encoding="utf-8")
    found = sentence(launch("doctor", TWOFOLD_CACHE=str(blocked / "cache")))
    assert str(blocked) in found
    assert "[folder.not_writable]" in found


@pytest.mark.slow
@pytest.mark.usefixtures("add_python")
def test_without_a_network_it_says_so_and_can_go_on_later(launch: Launch, checkout: Path) -> None:
    nowhere = {"PIP_CONFIG_FILE": "/dev/null", "PIP_INDEX_URL": "http://127.0.0.1:9/simple"}
    done = launch("--help", PIP_RETRIES="1", **nowhere)
    assert done.returncode == 1
    assert "[network.unreachable]" in done.stderr.splitlines()[-1]
    assert (checkout / ".venv" / "bin" / "python").exists()
    again = launch("--help", PIP_RETRIES="1", **nowhere)
    assert "[network.unreachable]" in again.stderr.splitlines()[-1]
    assert "virtual environment" not in again.stderr


def test_it_works_through_a_link_and_from_any_folder(
    checkout: Path, programs: Path, tmp_path: Path
) -> None:
    executable(programs / "python3", 'echo "$@"')
    link = tmp_path / "linked"
    link.symlink_to(checkout / "twofold")
    done = subprocess.run(
        [link, "chat", "two words"],
        cwd="/",
        env={"PATH": str(programs)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == f"{checkout}/setup chat two words"


def test_the_set_up_needs_nothing_but_the_standard_library(checkout: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(checkout)!r}); import setup.bootstrap"
    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)

"""Programs that the set-up runs: their failures become the right sentence."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from setup.context import GIB, Context, digest, failure
from setup.words import SetupError

NO_ROUTE = (
    "WARNING: Retrying after connection broken by 'NewConnectionError(Failed to establish)'\n"
    "ERROR: No matching distribution found for numpy==2.4.6"
)


@pytest.mark.parametrize(
    ("output", "code"),
    [
        ("OSError: [Errno 28] No space left on device", "disk.full"),
        ("g++: fatal error: error writing to /tmp/x.s: No space left on device", "disk.full"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES", "hash.mismatch"),
        (NO_ROUTE, "network.unreachable"),
        ("ERROR: No matching distribution found for numpy==2.4.6", "package.not_found"),
        ("make: *** something else", "step.failed"),
    ],
)
def test_a_failure_is_recognised_by_its_output(output: str, code: str) -> None:
    error = failure(output, what="numpy", log=Path("/log"), folder=Path("/cache"))
    assert error.code == code
    assert "\n" not in str(error)


def test_an_unknown_failure_quotes_the_line_that_tells_and_names_the_log(context: Context) -> None:
    program = (
        "echo 'error: the builder failed'; echo 'x.cpp:1: error: no such type'; echo; "
        "echo stopped; exit 3"
    )
    with pytest.raises(SetupError) as caught:
        context.run(["sh", "-c", program], what="building the engine", log="engine")
    log = context.logs / "engine.log"
    assert str(caught.value).startswith("Building the engine failed (x.cpp:1: error: no such type)")
    assert str(log) in str(caught.value)
    assert log.read_text(encoding="utf-8").endswith("stopped\n")


def test_a_program_that_fails_silently_is_still_a_sentence(context: Context) -> None:
    with pytest.raises(SetupError, match=r"Building failed \(it said nothing\)"):
        context.run(["sh", "-c", "exit 1"], what="building", log="silent")


def test_lines_arrive_whole_while_the_program_runs(context: Context) -> None:
    lines: list[str] = []
    program = "printf '[1/'; sleep 0.3; printf '2]\\n[2/2]\\nend'"
    output = context.run(["sh", "-c", program], what="x", log="x", on_line=lines.append)
    assert lines == ["[1/2]", "[2/2]"]
    assert output == "[1/2]\n[2/2]\nend"


def test_notes_survive_and_are_kept_apart(context: Context) -> None:
    assert context.done("library") is None
    context.record("library", {"name": "native"})
    context.record("extension", "abc")
    assert context.done("library") == {"name": "native"}
    assert context.done("extension") == "abc"


def test_spoiled_notes_count_as_nothing_done(context: Context) -> None:
    (context.venv / "twofold.json").write_text('{"library": ', encoding="utf-8")
    assert context.done("library") is None
    context.record("library", 1)
    assert context.done("library") == 1


def test_too_little_space_is_said_before_it_is_used_up(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=GIB))
    context.need_space(context.cache / "not" / "there" / "yet", GIB)
    with pytest.raises(SetupError, match=r"disk that holds .* needs 2\.0 GiB"):
        context.need_space(context.cache, 2 * GIB)


def test_a_digest_tells_where_its_parts_end() -> None:
    assert digest("ab", "c") != digest("a", "bc")
    assert digest("ab", "c") == digest(b"ab", "c")

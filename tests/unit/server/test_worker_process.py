"""How a worker ended, in words."""

from __future__ import annotations

import pytest

from engine.server.worker_process import End

PYTHON = ("Fatal Python error: Aborted", "Thread 0x1 (most recent call first):", "  File x")


@pytest.mark.parametrize(
    ("status", "options", "code"),
    [
        (-9, {}, "worker.killed"),
        (-9, {"out_of_memory": True}, "worker.out_of_memory"),
        (-6, {}, "worker.aborted"),
        (-4, {}, "worker.illegal_instruction"),
        (-11, {}, "worker.crashed"),
        (-7, {}, "worker.crashed"),
        (1, {}, "worker.exited"),
        (-9, {"hung_s": 30.0}, "worker.hung"),
        (0xC0000005, {}, "worker.crashed"),
        (0xC000001D - (1 << 32), {}, "worker.illegal_instruction"),
        (-250, {}, "worker.exited"),
    ],
)
def test_each_end_has_its_code_and_a_sentence(
    status: int, options: dict[str, float], code: str
) -> None:
    end = End(pid=7, status=status, log=(), **options)  # type: ignore[arg-type]
    failure = end.failure("ask")
    assert failure.code == code
    assert failure.sentence.endswith(".")
    assert "{" not in failure.sentence
    assert failure.data["pid"] == 7


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (("loading", "ggml.c:12: GGML_ASSERT(x) failed", "0x1 backtrace", *PYTHON),
         "ggml.c:12: GGML_ASSERT(x) failed"),
        (("no more room", *PYTHON), "no more room"),
        (PYTHON, "Fatal Python error: Aborted"),
        ((), "no message"),
    ],
)  # fmt: skip
def test_the_line_that_tells_most_is_shown(log: tuple[str, ...], words: str) -> None:
    failure = End(pid=7, status=-6, log=log).failure("ask")
    assert failure.data["last_line"] == words
    assert failure.log == log

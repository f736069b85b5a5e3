"""The packaged program's start: the window, a command, or one of the engine's own processes.

The engine starts its parts as `python -m MODULE` or `python FILE`, with the program that it runs
in. In the package that is this program, which therefore understands the same words.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence


def module_call(arguments: Sequence[str]) -> tuple[str, str, list[str]] | None:
    """("module" or "file", its name, its arguments), if Python itself would be meant."""
    rest = list(arguments)
    isolated = rest[:1] == ["-P"]
    if isolated:
        del rest[0]
    if rest[:1] == ["-m"] and len(rest) > 1:
        return "module", rest[1], rest[2:]
    if isolated and rest:
        return "file", rest[0], rest[1:]
    return None


def is_for_window(arguments: Sequence[str]) -> bool:
    """No command: a double click on the program, or on a model."""
    return not arguments or (len(arguments) == 1 and arguments[0].lower().endswith(".gguf"))


def main() -> None:
    call = module_call(sys.argv[1:])
    if call is not None:
        kind, name, arguments = call
        sys.argv = [name, *arguments]
        if kind == "module":
            runpy.run_module(name, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(name, run_name="__main__")
    elif is_for_window(sys.argv[1:]):
        from app.main import main as window

        sys.exit(window(sys.argv[1:]))
    else:
        from engine.cli.main import main as command_line

        command_line()


if __name__ == "__main__":
    main()
